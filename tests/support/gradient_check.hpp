#pragma once

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/program/gradient_check.hpp>
#include <mailgrad/graph/program/trial_run.hpp>
#include <mailgrad/tensor/tensor.hpp>
#include <mailgrad/tests/support/serialised.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

/// Helpers for tests of operations: they compute a value once, and compare gradients() with central
/// differences.
///
///     graph g;
///     const value x = g.variable("x", {3, 4}, initialiser::uniform(-1, 1));
///     const value y = relu(x);
///     EXPECT_THAT(run_once(y), Each(Ge(0.0F)));
///     expect_gradients(y, {x});
namespace mailgrad::test {

using mailgrad::feed;
using mailgrad::feeds;
using mailgrad::run_once;
using bound_program = trial_run;

inline tensor copy_of(const tensor& from) {
  tensor copy(from.dims(), from.type());
  std::copy_n(from.data(), from.size() * byte_size(from.type()), copy.data());
  return copy;
}

template <class T = float>
tensor tensor_of(const shape& dims, const std::vector<T>& values) {
  tensor made(dims, dtype_of<T>);
  std::ranges::copy(values, made.values<T>().begin());
  return made;
}

/// A tensor of uniform random values in [low, high).
inline tensor random_tensor(const shape& dims, std::uint64_t seed, float low = -1, float high = 1) {
  std::mt19937_64 draw(seed);
  tensor made(dims);
  for (float& v : made.values())
    v = low + (high - low) * static_cast<float>(static_cast<double>(draw() >> 11) * 0x1p-53);
  return made;
}

/// Expects the gradient of `y` with respect to each coordinate of `sources` to be the slope that central
/// differences measure, and the graph with the gradient to travel.
inline void expect_gradients(const value& y, const std::vector<value>& sources, const feeds& fed = {},
                             const gradient_tolerance& allowed = {}, std::uint64_t step = 0) {
  for (const gradient_mismatch& m : check_gradients(y, sources, fed, allowed, step))
    ADD_FAILURE() << to_string(m);
  expect_serialised(y.owner());
}

} // namespace mailgrad::test
