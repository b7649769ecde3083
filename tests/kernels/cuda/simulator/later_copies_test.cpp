#include "simulator_test.hpp"

#include <mailgrad/kernels/cuda/instructions.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

// Kernels that do not wait for what they copy to shared memory: the simulated card finds each.
namespace mailgrad {
namespace {

using simulated_card::all_schedules;
using simulated_card::reach;
using testing::AllOf;
using testing::card_array;
using testing::Contains;
using testing::counted;
using testing::Each;
using testing::HasSubstr;

class LaterCopies : public testing::simulator_test {};

constexpr unsigned copying_threads = 64;

/// Turns the values of each row around, row after row in the same shared memory.
enum class fault : std::uint8_t { none, reads_too_early, copies_too_early };
template <fault f>
__global__ void reverse_two(const float* x, float* y) {
  float* const room = cuda::shared_memory<float>();
  for (unsigned row = 0; row < 2; ++row) {
    if (f != fault::copies_too_early) __syncthreads(); // the row before may still be read
    cuda::copy_later<4>(room + threadIdx.x, x + row * blockDim.x + threadIdx.x, true);
    if (f != fault::reads_too_early) cuda::wait_for_copies();
    __syncthreads();
    y[row * blockDim.x + threadIdx.x] = room[blockDim.x - 1 - threadIdx.x];
    if (f == fault::reads_too_early) {
      __syncthreads();
      cuda::wait_for_copies();
    }
  }
}

std::vector<float> result_of(void (*kernel)(const float*, float*)) {
  cuda::card_lane lane(0);
  const card_array<float> from(lane, counted(2 * copying_threads)), to(lane, 2 * copying_threads);
  cuda::launch(std::get<cuda_stream>(lane.where()), "rows", 1, copying_threads,
               copying_threads * sizeof(float), kernel, from.data(), to.data());
  return to.read();
}

std::vector<float> reversed_rows() {
  std::vector<float> rows;
  for (unsigned row = 0; row < 2; ++row)
    for (unsigned i = copying_threads; i-- > 0;)
      rows.push_back(static_cast<float>(row * copying_threads + i));
  return rows;
}

TEST_F(LaterCopies, ArriveWhereTheyAreWaitedFor) {
  for (const auto& order : all_schedules) {
    run_in(order);
    EXPECT_EQ(result_of(reverse_two<fault::none>), reversed_rows());
  }
}

TEST_F(LaterCopies, AreNotThereBefore) {
  if (simulated_card::with_thread_sanitizer) GTEST_SKIP() << "it reports the race";
  for (const auto& order : all_schedules) {
    if (order.far == reach::one_warp_far) continue; // in which they come at once
    run_in(order);
    EXPECT_THAT(result_of(reverse_two<fault::reads_too_early>), Contains(testing::IsNan()));
  }
}

TEST_F(LaterCopies, MayComeAtOnceOverWhatIsStillRead) {
  if (simulated_card::with_thread_sanitizer) GTEST_SKIP() << "it reports the race";
  for (const auto& order : all_schedules) {
    if (order.far != reach::one_warp_far) continue;
    run_in(order);
    EXPECT_NE(result_of(reverse_two<fault::copies_too_early>), reversed_rows());
  }
}

__global__ void copy_none(float* y) {
  float* const room = cuda::shared_memory<float>();
  cuda::copy_later<16>(room + 4 * threadIdx.x, nullptr, false);
  cuda::wait_for_copies();
  y[threadIdx.x] = room[4 * threadIdx.x + 3];
}

TEST_F(LaterCopies, OfNothingStoreZerosAndReadNothing) {
  cuda::card_lane lane(0);
  const card_array<float> y(lane, copying_threads);
  cuda::launch(std::get<cuda_stream>(lane.where()), "none", 1, copying_threads, 16 * copying_threads,
               copy_none, y.data());
  EXPECT_THAT(y.read(), Each(0));
}

constexpr unsigned forgotten_line = __LINE__ + 2;
__global__ void forget(const float* x) {
  cuda::copy_later<4>(cuda::shared_memory<float>() + threadIdx.x, x + threadIdx.x, true);
}

TEST_F(LaterCopies, OfAThreadThatEndsAreFoundByLine) {
  EXPECT_THAT(refusal([] {
                cuda::card_lane lane(0);
                const card_array<float> x(lane, counted(copying_threads));
                cuda::launch(std::get<cuda_stream>(lane.where()), "forget", 1, copying_threads,
                             copying_threads * sizeof(float), forget, x.data());
                lane.finish();
              }),
              AllOf(HasSubstr("kernel forget: thread ("),
                    HasSubstr("has ended without waiting for its copy of"),
                    HasSubstr(fmt::format("later_copies_test.cpp:{}", forgotten_line))));
}

} // namespace
} // namespace mailgrad
