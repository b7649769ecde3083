#include "simulator_test.hpp"

#include <mailgrad/kernels/cuda/instructions.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

// Kernels that do not wait for what they copy to shared memory: the simulated GPU finds each.
namespace mailgrad {
namespace {

using simulated_gpu::all_schedules;
using simulated_gpu::reach;
using testing::AllOf;
using testing::Contains;
using testing::counted;
using testing::Each;
using testing::gpu_array;
using testing::HasSubstr;

class LaterCopies : public testing::simulator_test {};

constexpr unsigned copying_threads = 64;

/// Turns the values of each row around, row after row in the same shared memory.
enum class fault : std::uint8_t { none, reads_too_early, copies_too_early };
template <fault f>
__global__ void reverse_two(const float* x, float* y) {
  float* const workspace = cuda::shared_memory<float>();
  for (unsigned row = 0; row < 2; ++row) {
    if (f != fault::copies_too_early) __syncthreads(); // the row before may still be read
    cuda::copy_later<4>(workspace + threadIdx.x, x + row * blockDim.x + threadIdx.x, true);
    if (f != fault::reads_too_early) cuda::wait_for_copies();
    __syncthreads();
    y[row * blockDim.x + threadIdx.x] = workspace[blockDim.x - 1 - threadIdx.x];
    if (f == fault::reads_too_early) {
      __syncthreads();
      cuda::wait_for_copies();
    }
  }
}

std::vector<float> result_of(void (*kernel)(const float*, float*)) {
  cuda::gpu_queue queue(0);
  const gpu_array<float> from(queue, counted(2 * copying_threads)), to(queue, 2 * copying_threads);
  cuda::launch(std::get<cuda_stream>(queue.where()), "rows", 1, copying_threads,
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
  if (simulated_gpu::with_thread_sanitizer) GTEST_SKIP() << "it reports the race";
  for (const auto& order : all_schedules) {
    if (order.far == reach::one_warp_far) continue; // in which they come at once
    run_in(order);
    EXPECT_THAT(result_of(reverse_two<fault::reads_too_early>), Contains(testing::IsNan()));
  }
}

TEST_F(LaterCopies, MayComeAtOnceOverWhatIsStillRead) {
  if (simulated_gpu::with_thread_sanitizer) GTEST_SKIP() << "it reports the race";
  for (const auto& order : all_schedules) {
    if (order.far != reach::one_warp_far) continue;
    run_in(order);
    EXPECT_NE(result_of(reverse_two<fault::copies_too_early>), reversed_rows());
  }
}

__global__ void copy_none(float* y) {
  float* const workspace = cuda::shared_memory<float>();
  cuda::copy_later<16>(workspace + 4 * threadIdx.x, nullptr, false);
  cuda::wait_for_copies();
  y[threadIdx.x] = workspace[4 * threadIdx.x + 3];
}

TEST_F(LaterCopies, OfNothingStoreZerosAndReadNothing) {
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, copying_threads);
  cuda::launch(std::get<cuda_stream>(queue.where()), "none", 1, copying_threads, 16 * copying_threads,
               copy_none, y.data());
  EXPECT_THAT(y.read(), Each(0));
}

constexpr unsigned forgotten_line = __LINE__ + 2;
__global__ void forget(const float* x) {
  cuda::copy_later<4>(cuda::shared_memory<float>() + threadIdx.x, x + threadIdx.x, true);
}

TEST_F(LaterCopies, OfAThreadThatEndsAreFoundByLine) {
  EXPECT_THAT(refusal([] {
                cuda::gpu_queue queue(0);
                const gpu_array<float> x(queue, counted(copying_threads));
                cuda::launch(std::get<cuda_stream>(queue.where()), "forget", 1, copying_threads,
                             copying_threads * sizeof(float), forget, x.data());
                queue.finish();
              }),
              AllOf(HasSubstr("kernel forget: thread ("),
                    HasSubstr("has ended without waiting for its copy of"),
                    HasSubstr(fmt::format("later_copies_test.cpp:{}", forgotten_line))));
}

} // namespace
} // namespace mailgrad
