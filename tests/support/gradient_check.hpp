#pragma once

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operations/arithmetic.hpp>
#include <mailgrad/graph/operations/reductions.hpp>
#include <mailgrad/graph/program.hpp>
#include <mailgrad/tensor/tensor.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

/// For tests of operations: run a value once, and compare gradients() with central differences.
///
///     graph g;
///     const value x = g.variable("x", {3, 4}, initialiser::uniform(-1, 1));
///     const value y = relu(x);
///     EXPECT_THAT(run_once(y), Each(Ge(0.0F)));
///     expect_gradients(y, {x});
namespace mailgrad::test {

inline tensor copy_of(const tensor& from) {
  tensor copy(from.dims(), from.type());
  std::copy_n(from.data(), from.size() * byte_size(from.type()), copy.data());
  return copy;
}

/// What an input or a variable holds.
struct feed {
  feed(const value& what, tensor&& holds)
      : source(what), values(std::make_shared<const tensor>(std::move(holds))) {}
  feed(const value& what, const tensor& holds) : feed(what, copy_of(holds)) {}

  value source;
  std::shared_ptr<const tensor> values;
};

/// A variable that is not listed holds what its initialiser draws from seed 1.
using feeds = std::vector<feed>;

template <class T = float>
tensor tensor_of(const shape& dims, const std::vector<T>& values) {
  tensor made(dims, dtype_of<T>);
  std::ranges::copy(values, made.values<T>().begin());
  return made;
}

/// Uniform in [low, high).
inline tensor random_tensor(const shape& dims, std::uint64_t seed, float low = -1, float high = 1) {
  std::mt19937_64 draw(seed);
  tensor made(dims);
  for (float& v : made.values())
    v = low + (high - low) * static_cast<float>(static_cast<double>(draw() >> 11) * 0x1p-53);
  return made;
}

/// Everything a graph reads from outside, bound to a program that computes `fetches`.
class bound_program {
public:
  bound_program(std::span<const value> fetches, const feeds& fed)
      : fetches_(fetches.begin(), fetches.end()), program_(fetches.front().owner(), fetches) {
    graph& model = fetches.front().owner();
    for (const feed& f : fed) held_.emplace_back(f.source, copy_of(*f.values));
    for (const value& v : model.variables())
      if (std::ranges::none_of(fed, [&](const feed& f) { return f.source == v; }))
        held_.emplace_back(v, first_values(model.of(v)));
    for (auto& [source, values] : held_) program_.bind(source, values.data());
  }

  tensor& of(const value& source) {
    return std::ranges::find_if(held_, [&](const auto& h) { return h.first == source; })->second;
  }
  void run(std::uint64_t step) {
    program_.run(host_stream{}, step, [] {});
  }
  template <class T = float>
  std::vector<T> fetched(std::size_t i) const {
    const auto* first = static_cast<const T*>(program_.fetched(i));
    return {first, first + fetches_[i].dims().size()};
  }

private:
  static tensor first_values(const node& n) {
    tensor made(n.outputs[0].dims);
    initialise(std::get<variable_node>(n.what).first_values, 1, n.name, made.values());
    return made;
  }

  std::vector<value> fetches_;
  std::vector<std::pair<value, tensor>> held_;
  program program_;
};

/// Compiles and runs what `v` needs, and nothing else.
template <class T = float>
std::vector<T> run_once(const value& v, const feeds& fed = {}, std::uint64_t step = 0) {
  bound_program p({&v, 1}, fed);
  p.run(step);
  return p.fetched<T>(0);
}

struct gradient_tolerance {
  float epsilon = 5e-3F;  ///< how far a coordinate is moved to either side
  double relative = 2e-3; ///< largest difference, times 1 + the gradient's magnitude
};

namespace detail {

/// Sum of y with fixed weights, so that no part of its gradient is hidden; in double, to keep the rounding of
/// the sum out of the differences.
inline double weighted_sum(const std::vector<float>& y, std::span<const float> weights) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    sum += static_cast<double>(y[i]) * static_cast<double>(weights[i]);
  return sum;
}

/// Values that, run, give the gradient with respect to one source: a dense one, or pairs of rows and values.
inline std::vector<value> parts_of(const adjoint& a) {
  std::vector<value> parts;
  if (a.dense) parts.push_back(*a.dense);
  for (const sparse_rows& s : a.sparse) parts.insert(parts.end(), {s.rows, s.values});
  return parts;
}

inline std::vector<float> dense_gradient(const adjoint& a, const value& source, const feeds& fed,
                                         std::uint64_t step) {
  std::vector<float> sum(source.dims().size(), 0);
  const std::vector<value> parts = parts_of(a);
  if (parts.empty()) return sum;
  bound_program p(parts, fed);
  p.run(step);
  if (a.dense) sum = p.fetched(0);
  for (std::size_t i = a.dense ? 1 : 0; i < parts.size(); i += 2) {
    const auto rows = p.fetched<std::int32_t>(i);
    const auto values = p.fetched(i + 1);
    const std::size_t width = parts[i + 1].dims().back();
    for (std::size_t r = 0; r < rows.size() && rows[r] >= 0; ++r)
      for (std::size_t c = 0; c < width; ++c)
        sum[static_cast<std::size_t>(rows[r]) * width + c] += values[r * width + c];
  }
  return sum;
}

} // namespace detail

/// Compares the gradient of a weighted sum of `y` with respect to each coordinate of each of `sources`
/// (inputs or variables) with a central difference.
inline void expect_gradients(const value& y, const std::vector<value>& sources, const feeds& fed = {},
                             const gradient_tolerance& allowed = {}, std::uint64_t step = 0) {
  const tensor weights = random_tensor(y.dims(), 99, 0.5F, 1.5F);
  graph& model = y.owner();
  const value loss = reduce_sum(y * model.constant(random_tensor(y.dims(), 99, 0.5F, 1.5F)));
  const auto adjoints = gradients(loss, sources);
  bound_program moved({&y, 1}, fed);
  const auto loss_now = [&] {
    moved.run(step);
    return detail::weighted_sum(moved.fetched(0), weights.values());
  };
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const auto analytic = detail::dense_gradient(adjoints[s], sources[s], fed, step);
    const auto coordinates = moved.of(sources[s]).values();
    for (std::size_t i = 0; i < coordinates.size(); ++i) {
      const float here = coordinates[i];
      const float up = here + allowed.epsilon, down = here - allowed.epsilon;
      coordinates[i] = up;
      const double above = loss_now();
      coordinates[i] = down;
      const double below = loss_now();
      coordinates[i] = here;
      const double numeric = (above - below) / (static_cast<double>(up) - static_cast<double>(down));
      EXPECT_NEAR(analytic[i], numeric, allowed.relative * (1 + std::abs(numeric)))
          << "with respect to '" << model.of(sources[s]).name << "' [" << i << ']';
    }
  }
}

} // namespace mailgrad::test
