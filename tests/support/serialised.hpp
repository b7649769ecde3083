#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/serial/graph_bytes.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace mailgrad::test {

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

} // namespace mailgrad::test
