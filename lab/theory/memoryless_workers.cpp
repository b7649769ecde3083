#include <mailgrad/lab/theory/memoryless_workers.hpp>

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mailgrad::lab {

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

} // namespace mailgrad::lab
