#include <mailgrad/tests/support/simulated_card/card_control.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/program/program.hpp>
#include <mailgrad/kernels/cuda/card_lane.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

// What cuBLAS works in is taken for lanes that multiply, and before they do.

namespace mailgrad {
namespace {

std::uint64_t allocations() { return simulated_card::count().allocations; }

TEST(RoomForProducts, IsTakenByAProgramThatMultipliesBeforeItRuns) {
  graph g;
  const value x = g.input("x", {4, 4});
  const value sum = add(x, x), product = matmul(x, x);
  cuda::card_lane lane(0);
  const std::uint64_t before = allocations();
  program adds(g, std::array{sum}, std::array{x}, lane);
  const std::uint64_t of_sum = allocations() - before;
  program multiplies(g, std::array{product}, std::array{x}, lane);
  EXPECT_EQ(allocations() - before - of_sum, of_sum + 1);
  program again(g, std::array{product}, std::array{x}, lane);
  EXPECT_EQ(allocations() - before, 3 * of_sum + 1) << "once a lane";
}

} // namespace
} // namespace mailgrad
