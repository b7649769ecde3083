#pragma once

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operation.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/program/gradient_check.hpp>
#include <mailgrad/graph/program/trial_run.hpp>
#include <mailgrad/graph/serial/graph_bytes.hpp>
#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/tensor.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <source_location>
#include <span>
#include <string>
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

using mailgrad::feed, mailgrad::feeds, mailgrad::run_once;
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

/// A variable of uniform random first values.
inline value drawn_variable(graph& g, const char* name, const shape& dims, float low = -1, float high = 1) {
  return g.variable(name, dims, initialiser::uniform(low, high));
}

inline std::vector<std::string> names_of(const std::vector<value>& values) {
  std::vector<std::string> names;
  for (const value& v : values) names.push_back(v.owner().of(v).name);
  return names;
}

inline std::vector<std::byte> written(const graph& g, const value& y) {
  return write_graph(g, std::array{named_value{"y", y}});
}

/// Expects that a graph is the same after it was written and read, to the byte.
inline void expect_serialised(const graph& g, const operation_registry& known = {},
                              std::span<const named_value> outputs = {}) {
  const std::vector<std::byte> there = write_graph(g, outputs);
  graph copy;
  const named_values read = read_graph(copy, there, known);
  EXPECT_EQ(write_graph(copy, read.all()), there);
}

/// Expects the gradient of `y` with respect to each coordinate of `sources` to be the slope that central
/// differences measure, and the graph with the gradient to travel.
inline void expect_gradients(const value& y, const std::vector<value>& sources, const feeds& fed = {},
                             const gradient_tolerance& allowed = {}, std::uint64_t step = 0) {
  for (const gradient_mismatch& m : check_gradients(y, sources, fed, allowed, step))
    ADD_FAILURE() << to_string(m);
  expect_serialised(y.owner());
}

/// Matches a call that throws a graph_error with all these words.
template <class... Words>
auto is_refused(const Words&... words) {
  return mailgrad::testing::throws<graph_error>(words...);
}
/// Matches a call in the same EXPECT_THAT whose graph_error names its line too.
template <class... Words>
auto is_refused_here(const mailgrad::testing::words_here& first, const Words&... others) {
  return mailgrad::testing::throws_here<graph_error>(first, others...);
}

/// An operation that nobody runs. It makes what it is given.
class idle_operation : public operation {
public:
  std::vector<value_type> infer(std::span<const value_type> inputs) const override { return {inputs[0]}; }
  std::unique_ptr<executable> prepare(std::span<const value_type>, std::span<const value_type>,
                                      device_kind) const override {
    return nullptr;
  }
};

inline value apply_custom(const operation_node& op, const value& x,
                          std::source_location where = std::source_location::current()) {
  return x.owner().apply_one(op, {x}, where);
}

/// Fixture of tests of operations: a graph, and values in it.
struct operation_test : ::testing::Test {
  value numbers(const shape& dims, const std::vector<float>& values) {
    return g.constant(tensor_of(dims, values));
  }
  value integers(const shape& dims, const std::vector<std::int32_t>& values) {
    return g.constant(tensor_of(dims, values));
  }
  value drawn(const char* name, const shape& dims, float low = -1, float high = 1) {
    return drawn_variable(g, name, dims, low, high);
  }

  graph g;
};

inline constexpr device cpu0{device_kind::cpu, 0};
inline constexpr device cpu1{device_kind::cpu, 1};

/// Fixture of tests that place a model on two devices. They are skipped on a machine that lacks the second,
/// because a device scope requires that its device exists.
class on_two_devices : public testing::Test {
protected:
  void SetUp() override {
    if (available_devices().size() < 2) GTEST_SKIP() << "this machine has one processor";
  }
  const std::vector<device> two{cpu0, cpu1};
};

} // namespace mailgrad::test
