#include <mailgrad/lab/theory/fixed_delay.hpp>

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <vector>

namespace mailgrad::lab {

/// Of the matrix that takes x(t), x(t-1), ... one update on.
double radius_of_fixed_delay(unsigned tau, double a, double beta) {
  const auto size = static_cast<Eigen::Index>(std::max(tau + 1, 2U));
  Eigen::MatrixXd update = Eigen::MatrixXd::Zero(size, size);
  update(0, 0) = 1 + beta;
  update(0, 1) = -beta;
  update(0, static_cast<Eigen::Index>(tau)) -= a;
  for (Eigen::Index i = 1; i < size; ++i) update(i, i - 1) = 1;
  return update.eigenvalues().cwiseAbs().maxCoeff();
}

/// Where z on the unit circle is a root, a = -z^(tau-1) (z - 1) (z - beta) is a real number.
double largest_stable_step(unsigned tau, double beta) {
  if (beta == 0) return 2 * std::sin(std::numbers::pi / (4 * tau + 2));
  constexpr int points = 200'000;
  double least = std::numeric_limits<double>::infinity();
  std::complex<double> before = 0;
  for (int k = 1; k <= points; ++k) {
    const std::complex<double> z = std::polar(1.0, std::numbers::pi * k / points);
    const std::complex<double> a = -std::pow(z, static_cast<double>(tau) - 1) * (z - 1.0) * (z - beta);
    const bool crossed = k == points || (k > 1 && before.imag() * a.imag() <= 0);
    const double past = k == points ? 0 : a.imag() / (a.imag() - before.imag());
    const double real = a.real() + past * (before.real() - a.real());
    if (crossed && real > 1e-9) least = std::min(least, real);
    before = a;
  }
  return least;
}

/// Two roots meet there.
best_rate best_of_fixed_delay(unsigned tau) {
  const double t = tau;
  return {std::pow(t, t) / std::pow(t + 1, t + 1), t / (t + 1)};
}

/// The sum of squares of what one unit of noise does to all later weights.
double floor_of_fixed_delay(unsigned tau, double a) {
  if (a <= 0 || a >= largest_stable_step(tau)) return std::numeric_limits<double>::infinity();
  std::vector<double> last(tau + 1, 0.0); // x(t) in the place of t modulo tau + 1
  last[0] = 1;
  double sum = 0, recent = 1;
  for (std::size_t t = 0; recent > 1e-13 * sum; ++t) {
    const double x = last[t % last.size()];
    sum += x * x;
    recent = std::max(recent * (1 - 1e-3), x * x); // not to end where the weights pass through 0
    last[(t + 1) % last.size()] = x - a * last[(t + 1) % last.size()];
  }
  return sum;
}

} // namespace mailgrad::lab
