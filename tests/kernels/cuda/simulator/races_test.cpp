#include "simulator_test.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

// ThreadSanitizer takes each thread of a GPU, and each stream, for a thread of its own. It finds what no
// schedule shows.
namespace mailgrad {
namespace {

using testing::AllOf;
using testing::ExitedWithCode;
using testing::gpu_array;
using testing::HasSubstr;

class Races : public testing::simulator_test {
protected:
  Races() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void SetUp() override {
    if (!simulated_gpu::with_thread_sanitizer) GTEST_SKIP() << "no ThreadSanitizer";
  }
  static constexpr int found = 66; ///< the exit status of a program in which it found something
};

constexpr unsigned write_line = __LINE__ + 5, read_line = write_line + 2;
template <bool first_barrier, bool second_barrier>
__global__ void rotate_twice(float* y) {
  float* const workspace = cuda::shared_memory<float>();
  for (unsigned i = 0; i < 2; ++i) {
    workspace[threadIdx.x] = y[threadIdx.x];
    if constexpr (first_barrier) __syncthreads();
    y[threadIdx.x] = workspace[(threadIdx.x + 1) % blockDim.x];
    if constexpr (second_barrier) __syncthreads();
  }
}

void run_block(void (*kernel)(float*)) {
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, std::vector<float>(64, 1));
  cuda::launch(std::get<cuda_stream>(queue.where()), "rotate", 1, 64, 64 * sizeof(float), kernel, y.data());
  queue.finish();
  std::exit(0);
}

TEST_F(Races, AreNoneInARightKernel) {
  EXPECT_EXIT(run_block(rotate_twice<true, true>), ExitedWithCode(0), "");
}

TEST_F(Races, OfAMissingBarrierAreFound) {
  EXPECT_EXIT(run_block(rotate_twice<false, true>), ExitedWithCode(found),
              AllOf(HasSubstr("data race"), HasSubstr(fmt::format("races_test.cpp:{}", read_line)),
                    HasSubstr(fmt::format("races_test.cpp:{}", write_line))));
}

TEST_F(Races, OfAMissingBarrierBeforeReuseAreFound) {
  EXPECT_EXIT(run_block(rotate_twice<true, false>), ExitedWithCode(found),
              AllOf(HasSubstr("data race"), HasSubstr(fmt::format("races_test.cpp:{}", write_line))));
}

__global__ void one_cell(float* y) {
  if (threadIdx.x == 0) y[0] = static_cast<float>(blockIdx.x);
}

void run_blocks() {
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, 1);
  cuda::launch(std::get<cuda_stream>(queue.where()), "cell", 2, 32, 0, one_cell, y.data());
  std::exit(0);
}

TEST_F(Races, BetweenBlocksAreFound) {
  EXPECT_EXIT(run_blocks(), ExitedWithCode(found), AllOf(HasSubstr("data race"), HasSubstr("one_cell")));
}

constexpr unsigned fill_line = __LINE__ + 1;
__global__ void fill_racing(float* y, float value) { y[threadIdx.x] = value; }
constexpr unsigned copy_line = __LINE__ + 1;
__global__ void copy_racing(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }

void copy_between_streams(bool waits) {
  cuda::gpu_queue writer(0), reader(0);
  const gpu_array<float> x(writer, 32), y(reader, 32);
  writer.finish();
  cuda::launch(std::get<cuda_stream>(writer.where()), "fill", 1, 32, 0, fill_racing, x.data(), 3.0F);
  const device_event written = writer.record();
  if (waits) reader.wait_for(written);
  cuda::launch(std::get<cuda_stream>(reader.where()), "copy", 1, 32, 0, copy_racing, x.data(), y.data());
  if (y.read()[0] != 3) std::exit(1); // eagerly, the number is right
  std::exit(0);
}

TEST_F(Races, AreNoneBetweenStreamsThatWait) {
  EXPECT_EXIT(copy_between_streams(true), ExitedWithCode(0), "");
}

TEST_F(Races, OfAForgottenWaitAreFoundThoughTheNumbersAreRight) {
  EXPECT_EXIT(copy_between_streams(false), ExitedWithCode(found),
              AllOf(HasSubstr("data race"), HasSubstr(fmt::format("races_test.cpp:{}", fill_line)),
                    HasSubstr(fmt::format("races_test.cpp:{}", copy_line))));
}

void overwrite_pinned(bool waits) {
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, 4);
  cuda::pinned_block pinned(16);
  cuda::runtime::copy(std::get<cuda_stream>(queue.where()).stream, y.data(), pinned.as<float>().data(), 16);
  if (waits) queue.finish();
  pinned.as<float>()[0] = 2;
  std::exit(0);
}

TEST_F(Races, OfTheHostWithACopyOfPinnedMemoryAreFound) {
  EXPECT_EXIT(overwrite_pinned(true), ExitedWithCode(0), "");
  EXPECT_EXIT(overwrite_pinned(false), ExitedWithCode(found), HasSubstr("overwrite_pinned"));
}

} // namespace
} // namespace mailgrad
