#include "simulator_test.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace mailgrad {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::gpu_array;

class Schedules : public testing::simulator_test {};

/// One block a row; `columns` is any number.
__global__ void row_softmax(const float* x, float* y, std::size_t columns) {
  float* const workspace = cuda::shared_memory<float>();
  float sum = 0;
  for (std::size_t k = threadIdx.x; k < columns; k += blockDim.x)
    sum += std::exp(x[blockIdx.x * columns + k]);
  sum = cuda::block_sum(sum, workspace);
  for (std::size_t k = threadIdx.x; k < columns; k += blockDim.x)
    y[blockIdx.x * columns + k] = std::exp(x[blockIdx.x * columns + k]) / sum;
}

std::vector<float> softmax_of(const std::vector<float>& x, std::size_t rows) {
  cuda::gpu_queue queue(0);
  const gpu_array<float> from(queue, x), to(queue, x.size());
  cuda::launch(std::get<cuda_stream>(queue.where()), "softmax", static_cast<unsigned>(rows), 128,
               32 * sizeof(float), row_softmax, from.data(), to.data(), x.size() / rows);
  return to.read();
}

TEST_F(Schedules, GiveTheSameBitsInARightKernel) {
  constexpr std::size_t rows = 5, columns = 203;
  std::vector<float> x(rows * columns);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  const std::vector<float> first = softmax_of(x, rows);
  double sum = 0;
  for (std::size_t k = 0; k < columns; ++k) sum += std::exp(x[k]);
  for (std::size_t k = 0; k < columns; ++k) EXPECT_NEAR(first[k], std::exp(x[k]) / sum, 1e-6);
  for (const auto& order : simulated_gpu::all_schedules) {
    run_in(order);
    EXPECT_EQ(softmax_of(x, rows), first);
  }
}

/// Each thread notes when its turn came, before and after a barrier of its warp.
__global__ void note_turns(unsigned* turn, unsigned* before, unsigned* after) {
  before[cuda::grid_thread()] = atomicAdd(turn, 1U);
  __syncwarp();
  after[cuda::grid_thread()] = atomicAdd(turn, 1U);
}

struct turns {
  std::vector<unsigned> before, after;
};

turns turns_in(const simulated_gpu::schedule& order) {
  simulated_gpu::set_up({.order = order});
  cuda::gpu_queue queue(0);
  const gpu_array<unsigned> turn(queue, std::vector<unsigned>{0}), before(queue, 64), after(queue, 64);
  cuda::launch(std::get<cuda_stream>(queue.where()), "turns", 1, 64, 0, note_turns, turn.data(),
               before.data(), after.data());
  return {before.read(), after.read()};
}

std::vector<unsigned> from_to(unsigned first, unsigned last) {
  std::vector<unsigned> all;
  for (unsigned i = first; i != last; i += first < last ? 1U : ~0U) all.push_back(i);
  return all;
}

TEST_F(Schedules, RunEveryThreadToItsBarrierBeforeOneGoesOn) {
  using enum simulated_gpu::thread_order;
  const turns forwards = turns_in({forward, simulated_gpu::reach::breadth_first});
  EXPECT_THAT(forwards.before, ElementsAreArray(from_to(0, 64)));
  EXPECT_THAT(forwards.after, ElementsAreArray(from_to(64, 128)));
  const turns backwards = turns_in({backward, simulated_gpu::reach::breadth_first});
  EXPECT_EQ(backwards.before[63], 0U);
  EXPECT_EQ(backwards.before[0], 63U);
}

TEST_F(Schedules, OrRunOneWarpAsFarAsItGets) {
  using enum simulated_gpu::thread_order;
  const turns forwards = turns_in({forward, simulated_gpu::reach::one_warp_far});
  EXPECT_EQ(forwards.before[31], 31U);
  EXPECT_EQ(forwards.after[31], 63U);
  EXPECT_EQ(forwards.before[32], 64U);
  const turns backwards = turns_in({backward, simulated_gpu::reach::one_warp_far});
  EXPECT_EQ(backwards.before[63], 0U);
  EXPECT_EQ(backwards.after[32], 63U);
  EXPECT_EQ(backwards.before[31], 64U);
}

TEST_F(Schedules, ShuffleByASeed) {
  const simulated_gpu::schedule one{simulated_gpu::thread_order::shuffled,
                                    simulated_gpu::reach::breadth_first, 1};
  simulated_gpu::schedule two = one;
  two.seed = 2;
  EXPECT_EQ(turns_in(one).before, turns_in(one).before);
  EXPECT_NE(turns_in(one).before, turns_in(two).before);
  EXPECT_NE(turns_in(one).before, from_to(0, 64));
}

__global__ void note_block(unsigned* turn, unsigned* turns) { turns[blockIdx.x] = atomicAdd(turn, 1U); }

TEST_F(Schedules, OrderBlocksToo) {
  run_in({simulated_gpu::thread_order::backward, simulated_gpu::reach::breadth_first});
  cuda::gpu_queue queue(0);
  const gpu_array<unsigned> turn(queue, std::vector<unsigned>{0}), noted(queue, 4);
  cuda::launch(stream_of(queue), "blocks", 4, 1, 0, note_block, turn.data(), noted.data());
  EXPECT_THAT(noted.read(), ElementsAre(3, 2, 1, 0));
}

} // namespace
} // namespace mailgrad
