#include <mailgrad/lab/theory.hpp>

#include <Eigen/Eigenvalues>
#include <boost/math/distributions/students_t.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

namespace mailgrad::lab {

double mean_of_kth_exponential(std::uint32_t k, std::uint32_t m) {
  double sum = 0;
  for (std::uint32_t i = 0; i < k; ++i) sum += 1.0 / (m - i);
  return sum;
}

double deviation_of_kth_exponential(std::uint32_t k, std::uint32_t m) {
  double sum = 0;
  for (std::uint32_t i = 0; i < k; ++i) sum += 1.0 / (m - i) / (m - i);
  return std::sqrt(sum);
}

double mean_of_kth_pareto(std::uint32_t k, std::uint32_t m, double alpha) {
  const double left = m - k + 1 - 1 / alpha;
  if (left <= 0) return std::numeric_limits<double>::infinity();
  return std::exp(std::lgamma(m + 1.0) + std::lgamma(left) - std::lgamma(m - k + 1.0) -
                  std::lgamma(m + 1 - 1 / alpha));
}

/// The square of a Pareto time is one with half the exponent, and is the k-th when the time is.
double deviation_of_kth_pareto(std::uint32_t k, std::uint32_t m, double alpha) {
  const double mean = mean_of_kth_pareto(k, m, alpha);
  return std::sqrt(mean_of_kth_pareto(k, m, alpha / 2) - mean * mean);
}

std::uint32_t best_number_to_wait_for(std::uint32_t m, double shift) {
  std::uint32_t best = 1;
  double least = std::numeric_limits<double>::infinity();
  double waits = shift;
  for (std::uint32_t n = 1; n <= m; ++n) {
    waits += 1.0 / (m - n + 1);
    const double seconds = waits / n;
    if (seconds < least) least = seconds, best = n;
  }
  return best;
}

double goodput_of_quorum(std::uint32_t learners, std::uint32_t quorum, double up) {
  double sum = 0, ways = 1; // C(n, u)
  for (std::uint32_t u = 0; u <= learners; ++u) {
    if (u >= quorum) sum += u * ways * std::pow(up, u) * std::pow(1 - up, learners - u);
    ways *= static_cast<double>(learners - u) / (u + 1);
  }
  return sum / learners;
}

double students_quantile(std::uint64_t freedom, double beyond) {
  if (freedom == 0) return std::numeric_limits<double>::infinity();
  const boost::math::students_t law(static_cast<double>(freedom));
  return boost::math::quantile(boost::math::complement(law, beyond / 2));
}

namespace {

/// Means of products of x = x(t), y = x(t-1), and w and v, which two different workers have read.
enum moment { xx, yy, xy, xw, yw, ww, wv, moments };

using second_moments = Eigen::Matrix<double, moments, 1>;

struct update_rule {
  double workers, a, beta;

  /// With m = 1 there is no second worker.
  second_moments after(const second_moments& e, double noise) const {
    const double m = workers, b = 1 + beta;
    const double moved_x = b * e[xw] - beta * e[yw];                                  // E (b x - beta y) w
    const double square = b * b * e[xx] - 2 * b * beta * e[xy] + beta * beta * e[yy]; // E (b x - beta y)^2
    const double stayed = moved_x - a * e[wv]; // E x(t+1) v, of a worker that did not push
    second_moments next;
    next[xx] = square - 2 * a * moved_x + a * a * e[ww] + noise;
    next[yy] = e[xx];
    next[xy] = b * e[xx] - beta * e[xy] - a * e[xw];
    next[xw] = next[xx] / m + (1 - 1 / m) * stayed;
    next[yw] = next[xy] / m + (1 - 1 / m) * e[xw];
    next[ww] = next[xx] / m + (1 - 1 / m) * e[ww];
    next[wv] = m < 2 ? 0 : 2 / m * stayed + (1 - 2 / m) * e[wv];
    return next;
  }
};

} // namespace

std::vector<double> mean_path(double workers, double a, std::size_t last, double beta) {
  std::vector<double> x{1};
  double read = 1, before = 1;
  for (std::size_t t = 0; t < last; ++t) {
    x.push_back(x[t] + beta * (x[t] - before) - a * read);
    before = x[t];
    read = (1 - 1 / workers) * read + x[t + 1] / workers;
  }
  return x;
}

std::vector<double> mean_square_path(double workers, double a, double start, double noise, std::size_t last) {
  const update_rule rule{workers, a, 0};
  second_moments e = second_moments::Constant(start * start);
  std::vector<double> all{e[xx]};
  for (std::size_t t = 0; t < last; ++t) {
    e = rule.after(e, noise);
    all.push_back(e[xx]);
  }
  return all;
}

double largest_mean_square_step(double workers) { return (1 + std::sqrt(1 + 8 * workers)) / (2 * workers); }

double floor_of_memoryless(double workers, double a) {
  if (a <= 0 || a >= largest_mean_square_step(workers)) return std::numeric_limits<double>::infinity();
  return (1 + workers * a) / (a * (2 + a - workers * a * a));
}

double mean_square_radius(double workers, double a, double beta) {
  const update_rule rule{workers, a, beta};
  Eigen::Matrix<double, moments, moments> update;
  for (int i = 0; i < moments; ++i) update.col(i) = rule.after(second_moments::Unit(i), 0);
  return std::sqrt(update.eigenvalues().cwiseAbs().maxCoeff());
}

/// A search by thirds: towards longer steps the flat coordinate shrinks faster, and the steep one slower.
best_descent best_with_momentum(double workers, double beta, double condition) {
  const auto radius = [&](double a) {
    return std::max(mean_square_radius(workers, a, beta), mean_square_radius(workers, a / condition, beta));
  };
  double from = 0, to = 2 * (1 + std::abs(beta));
  for (int i = 0; i < 60; ++i) {
    const double third = (to - from) / 3;
    (radius(from + third) < radius(to - third) ? to : from) =
        radius(from + third) < radius(to - third) ? to - third : from + third;
  }
  return {from, radius(from)};
}

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
