#include "simulator_test.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mailgrad {
namespace {

using testing::AllOf;
using testing::gpu_array;
using testing::HasSubstr;

class Warps : public testing::simulator_test {
protected:
  /// What each thread of a block writes.
  static std::vector<unsigned> values_of(void (*kernel)(unsigned*), unsigned threads = 64) {
    cuda::gpu_queue queue(0);
    const gpu_array<unsigned> y(queue, threads);
    cuda::launch(stream_of(queue), "warps", 1, threads, 0, kernel, y.data());
    return y.read();
  }
};

__global__ void shuffle_up_and_down(unsigned* y) {
  constexpr unsigned all = 0xffffffffU;
  const unsigned t = threadIdx.x;
  y[t] = __shfl_up_sync(all, t, 1) + 100 * __shfl_down_sync(all, t, 1) + 10000 * __shfl_xor_sync(all, t, 16);
}

TEST_F(Warps, ShuffleUpDownAndAcross) {
  for (const auto& order : simulated_gpu::all_schedules) {
    run_in(order);
    const auto y = values_of(shuffle_up_and_down);
    for (unsigned t = 0; t < y.size(); ++t) {
      const unsigned up = t % 32 == 0 ? t : t - 1, down = t % 32 == 31 ? t : t + 1;
      EXPECT_EQ(y[t], up + 100 * down + 10000 * (t ^ 16U)) << t;
    }
  }
}

__global__ void shuffle_in_eights(unsigned* y) {
  constexpr unsigned all = 0xffffffffU;
  const unsigned t = threadIdx.x;
  y[t] = __shfl_sync(all, t, 3, 8) + 100 * __shfl_down_sync(all, t, 4, 8);
}

TEST_F(Warps, ShuffleWithinAWidth) {
  const auto y = values_of(shuffle_in_eights);
  for (unsigned t = 0; t < y.size(); ++t) EXPECT_EQ(y[t], t / 8 * 8 + 3 + 100 * (t % 8 < 4 ? t + 4 : t)) << t;
}

__global__ void vote(unsigned* y) {
  constexpr unsigned all = 0xffffffffU;
  const unsigned t = threadIdx.x;
  y[t] = __ballot_sync(all, t % 32 < 3);
  y[t] += 100U * static_cast<unsigned>(__any_sync(all, t == 40)) +
          1000U * static_cast<unsigned>(__all_sync(all, t < 32));
}

TEST_F(Warps, Vote) {
  const auto y = values_of(vote);
  EXPECT_EQ(y[0], 7U + 1000U);
  EXPECT_EQ(y[63], 7U + 100U);
}

__global__ void halves_apart(unsigned* y) {
  const unsigned t = threadIdx.x, mask = t % 32 < 16 ? 0x0000ffffU : 0xffff0000U;
  if (t % 32 < 16)
    y[t] = __shfl_xor_sync(mask, t, 8);
  else
    y[t] = __shfl_xor_sync(mask, t, 1);
}

TEST_F(Warps, MeetInPartsThatNameThemselves) {
  for (const auto& order : simulated_gpu::all_schedules) {
    run_in(order);
    const auto y = values_of(halves_apart);
    for (unsigned t = 0; t < y.size(); ++t) EXPECT_EQ(y[t], t % 32 < 16 ? t ^ 8U : t ^ 1U) << t;
  }
}

constexpr unsigned half_line = __LINE__ + 2;
__global__ void half_comes(unsigned* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_xor_sync(0xffffffffU, threadIdx.x, 1);
}

TEST_F(Warps, NameWhoWaitsForLanesThatHaveEnded) {
  for (const auto& order : simulated_gpu::all_schedules) {
    run_in(order);
    EXPECT_THAT(
        refusal([] { values_of(half_comes); }),
        AllOf(HasSubstr("kernel warps: thread ("), HasSubstr(fmt::format("warps_test.cpp:{}", half_line))));
  }
}

__global__ void short_warp(unsigned* y) { y[threadIdx.x] = __shfl_down_sync(0xffffffffU, threadIdx.x, 8); }

TEST_F(Warps, NameWhoReadsFromALaneThatIsNotThere) {
  EXPECT_THAT(refusal([] { values_of(short_warp, 40); }), HasSubstr("from lane 8, which it has not met"));
  run_in({});
  EXPECT_EQ(refusal([] { values_of(short_warp, 64); }), "");
}

__global__ void some_at_a_barrier(unsigned* y) {
  if (threadIdx.x == 0)
    __syncwarp();
  else
    __syncthreads();
  y[threadIdx.x] = 1;
}

TEST_F(Warps, NameWhoWaitsForEver) {
  EXPECT_THAT(refusal([] { values_of(some_at_a_barrier); }),
              AllOf(HasSubstr("thread (0, 0, 0) of block (0, 0, 0) waits for ever at "),
                    HasSubstr(", thread (1, 0, 0) of block (0, 0, 0) waits for ever at ")));
}

} // namespace
} // namespace mailgrad
