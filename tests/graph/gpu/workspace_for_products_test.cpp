#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/program/program.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/tests/support/simulated_gpu/gpu_control.hpp>

#include <gtest/gtest.h>

#include <array>

namespace mailgrad {
namespace {

// What cuBLAS works in is taken for queues that multiply, and before they do.

std::uint64_t allocations() { return simulated_gpu::count().allocations; }

TEST(RoomForProducts, IsTakenByAProgramThatMultipliesBeforeItRuns) {
  graph g;
  const value x = g.input("x", {4, 4}), sum = add(x, x), product = matmul(x, x);
  cuda::gpu_queue queue(0);
  const std::uint64_t before = allocations();
  program adds(g, std::array{sum}, std::array{x}, queue);
  const std::uint64_t of_sum = allocations() - before;
  program multiplies(g, std::array{product}, std::array{x}, queue);
  EXPECT_EQ(allocations() - before - of_sum, of_sum + 1);
  program again(g, std::array{product}, std::array{x}, queue);
  EXPECT_EQ(allocations() - before, 3 * of_sum + 1) << "once a queue";
}

} // namespace
} // namespace mailgrad
