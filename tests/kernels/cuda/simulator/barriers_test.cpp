#include "simulator_test.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

// Kernels that lack a barrier, or have one too many: the simulated GPU finds each.
namespace mailgrad {
namespace {

using simulated_gpu::all_schedules;
using simulated_gpu::reach;
using testing::AllOf;
using testing::Contains;
using testing::counted;
using testing::gpu_array;
using testing::HasSubstr;

class Barriers : public testing::simulator_test {};

constexpr unsigned threads = 64;

/// Turns the values of a block around.
template <bool with_barrier>
__global__ void reverse(const float* x, float* y) {
  float* const workspace = cuda::shared_memory<float>();
  workspace[threadIdx.x] = x[threadIdx.x];
  if constexpr (with_barrier) __syncthreads();
  y[threadIdx.x] = workspace[blockDim.x - 1 - threadIdx.x];
}

/// Sums two rows, one after the other, in the same shared memory.
template <bool with_barrier>
__global__ void sum_two(const float* x, float* y) {
  float* const workspace = cuda::shared_memory<float>();
  for (unsigned row = 0; row < 2; ++row) {
    const float part = cuda::warp_sum(x[row * blockDim.x + threadIdx.x]);
    if constexpr (with_barrier) __syncthreads();
    if (threadIdx.x % 32 == 0) workspace[threadIdx.x / 32] = part;
    __syncthreads();
    y[row * blockDim.x + threadIdx.x] = workspace[0] + workspace[1];
  }
}

/// What the kernel writes for so many rows.
std::vector<float> result_of(void (*kernel)(const float*, float*), std::size_t rows) {
  cuda::gpu_queue queue(0);
  const gpu_array<float> from(queue, counted(rows * threads)), to(queue, rows * threads);
  cuda::launch(std::get<cuda_stream>(queue.where()), "rows", 1, threads, threads * sizeof(float), kernel,
               from.data(), to.data());
  return to.read();
}

std::vector<float> reversed_row() {
  std::vector<float> row = counted(threads);
  std::ranges::reverse(row);
  return row;
}

std::vector<float> summed_rows() {
  std::vector<float> sums(threads, 64 * 31.5F);
  sums.insert(sums.end(), threads, 64 * (64 + 31.5F));
  return sums;
}

TEST_F(Barriers, LetRightKernelsBeRightInEverySchedule) {
  for (const auto& order : all_schedules) {
    run_in(order);
    EXPECT_EQ(result_of(reverse<true>, 1), reversed_row());
    EXPECT_EQ(result_of(sum_two<true>, 2), summed_rows());
  }
}

TEST_F(Barriers, AreMissedInEverySchedule) {
  if (simulated_gpu::with_thread_sanitizer) GTEST_SKIP() << "it reports the race, as races_test.cpp shows";
  for (const auto& order : all_schedules) {
    run_in(order);
    EXPECT_THAT(result_of(reverse<false>, 1), Contains(testing::IsNan()))
        << "what nobody wrote to is not-a-number";
  }
}

/// Breadth first, all threads have read before one writes again: only these schedules show it.
TEST_F(Barriers, AreMissedBeforeReuseWhereOneWarpGetsFar) {
  if (simulated_gpu::with_thread_sanitizer) GTEST_SKIP() << "it reports the race, as races_test.cpp shows";
  for (const auto& order : all_schedules) {
    run_in(order);
    EXPECT_EQ(result_of(sum_two<false>, 2) == summed_rows(), order.far == reach::breadth_first);
  }
}

constexpr unsigned divergent_line = __LINE__ + 4;
__global__ void divergent(float* y) {
  y[threadIdx.x] = 1;
  if (threadIdx.x < 32) {
    __syncthreads();
    y[threadIdx.x] = 2;
  }
}

constexpr unsigned first_line = __LINE__ + 3, second_line = first_line + 2;
__global__ void two_places(float* y) {
  if (threadIdx.x % 2 == 0) // NOLINT(bugprone-branch-clone): two barriers, not one
    __syncthreads();
  else
    __syncthreads();
  y[threadIdx.x] = 1;
}

std::string complaint_about(void (*kernel)(float*)) {
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, threads);
  try {
    cuda::launch(std::get<cuda_stream>(queue.where()), "wrong", 1, threads, 0, kernel, y.data());
    queue.finish();
  } catch (const device_error& e) {
    return e.what();
  }
  return {};
}

TEST_F(Barriers, InADivergentBranchAreNamedByFileAndLine) {
  for (const auto& order : all_schedules) {
    run_in(order);
    EXPECT_THAT(complaint_about(divergent),
                AllOf(HasSubstr("kernel wrong: thread ("), HasSubstr(" of block (0, 0, 0) "),
                      HasSubstr(fmt::format("barriers_test.cpp:{}", divergent_line)),
                      HasSubstr("ended without")));
  }
}

TEST_F(Barriers, AtTwoPlacesAreNamedBoth) {
  for (const auto& order : all_schedules) {
    run_in(order);
    EXPECT_THAT(complaint_about(two_places),
                AllOf(HasSubstr(fmt::format("barriers_test.cpp:{}", first_line)),
                      HasSubstr(fmt::format("barriers_test.cpp:{}", second_line))));
  }
}

/// After such a fault every call says it, as on a GPU.
TEST_F(Barriers, ThatWentWrongFailTheGpu) {
  EXPECT_NE(complaint_about(divergent), "");
  EXPECT_THAT(refusal([] { cuda::gpu_queue queue(0); }), HasSubstr("ended without"));
  run_in({});
  EXPECT_EQ(refusal([] { cuda::gpu_queue queue(0); }), "");
}

__global__ void count_votes(int* y) {
  y[threadIdx.x] = __syncthreads_count(threadIdx.x < 7);
  y[threadIdx.x] += 100 * __syncthreads_or(threadIdx.x == 5) + 1000 * __syncthreads_and(threadIdx.x < 63);
}

TEST_F(Barriers, CountVotes) {
  cuda::gpu_queue queue(0);
  const gpu_array<int> y(queue, threads);
  cuda::launch(stream_of(queue), "votes", 1, threads, 0, count_votes, y.data());
  EXPECT_EQ(y.read(), std::vector<int>(threads, 107));
}

} // namespace
} // namespace mailgrad
