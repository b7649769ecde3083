#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/program/gradient_check.hpp>

#include <fmt/format.h>

#include <cmath>
#include <random>

namespace mailgrad {
namespace {

/// Draws a different weight for each element, so that errors of several elements cannot cancel.
tensor weights_of(const shape& dims) {
  std::mt19937_64 draw(99);
  tensor made(dims);
  for (float& w : made.values()) w = 0.5F + static_cast<float>(static_cast<double>(draw() >> 11) * 0x1p-53);
  return made;
}

/// Sums in double, to keep the rounding of the sum out of the differences.
double weighted_sum(const std::vector<float>& y, std::span<const float> weights) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    sum += static_cast<double>(y[i]) * static_cast<double>(weights[i]);
  return sum;
}

/// The values to run for the gradient with respect to one source: a dense one, or pairs of rows and values.
std::vector<value> parts_of(const adjoint& a) {
  std::vector<value> parts;
  if (a.dense) parts.push_back(*a.dense);
  for (const sparse_rows& s : a.sparse) parts.insert(parts.end(), {s.rows, s.values});
  return parts;
}

std::vector<float> dense_gradient(const adjoint& a, const value& source, const feeds& fed,
                                  std::uint64_t step) {
  std::vector<float> sum(source.dims().size(), 0);
  const std::vector<value> parts = parts_of(a);
  if (parts.empty()) return sum;
  trial_run trial(parts, fed);
  trial.run(step);
  if (a.dense) sum = trial.fetched(0);
  for (std::size_t i = a.dense ? 1 : 0; i < parts.size(); i += 2) {
    const auto rows = trial.fetched<std::int32_t>(i);
    const auto values = trial.fetched(i + 1);
    const std::size_t width = parts[i + 1].dims().back();
    for (std::size_t r = 0; r < rows.size() && rows[r] >= 0; ++r)
      for (std::size_t c = 0; c < width; ++c)
        sum[static_cast<std::size_t>(rows[r]) * width + c] += values[r * width + c];
  }
  return sum;
}

class moved_sum {
public:
  moved_sum(const value& y, const feeds& fed, std::uint64_t step)
      : trial_({&y, 1}, fed), weights_(weights_of(y.dims())), step_(step) {}

  std::size_t size(const value& source) { return trial_.of(source).size(); }

  double slope(const value& source, std::size_t element, float epsilon) {
    float& coordinate = trial_.of(source).values()[element];
    const float here = coordinate;
    const float up = here + epsilon, down = here - epsilon;
    const double above = with(coordinate, up), below = with(coordinate, down);
    coordinate = here;
    return (above - below) / (static_cast<double>(up) - static_cast<double>(down));
  }

private:
  double with(float& coordinate, float at) {
    coordinate = at;
    trial_.run(step_);
    return weighted_sum(trial_.fetched(0), weights_.values());
  }

  trial_run trial_;
  tensor weights_;
  std::uint64_t step_;
};

} // namespace

std::string to_string(const gradient_mismatch& m) {
  return fmt::format("gradient with respect to '{}' [{}] is {:f}, where the difference quotient is {:f}",
                     m.source, m.element, m.found, m.expected);
}

std::vector<gradient_mismatch> check_gradients(const value& y, std::span<const value> sources,
                                               const feeds& fed, const gradient_tolerance& allowed,
                                               std::uint64_t step) {
  graph& model = y.owner();
  const value loss = reduce_sum(y * model.constant(weights_of(y.dims())));
  const std::vector<adjoint> adjoints = gradients(loss, sources);
  moved_sum sum(y, fed, step);
  std::vector<gradient_mismatch> wrong;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const auto found = dense_gradient(adjoints[s], sources[s], fed, step);
    for (std::size_t i = 0; i < sum.size(sources[s]); ++i) {
      const double expected = sum.slope(sources[s], i, allowed.epsilon);
      const double distance = std::abs(static_cast<double>(found[i]) - expected);
      if (distance <= allowed.relative * (1 + std::abs(expected))) continue; // a NaN is a mismatch
      wrong.push_back({model.of(sources[s]).name, i, static_cast<double>(found[i]), expected});
    }
  }
  return wrong;
}

} // namespace mailgrad
