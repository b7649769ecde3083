#include "simulator_test.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

// Memory that a kernel, or the host, must not touch.
namespace mailgrad {
namespace {

using testing::AllOf;
using testing::gpu_array;
using testing::HasSubstr;

class Bounds : public testing::simulator_test {
protected:
  Bounds() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

constexpr unsigned store_line = __LINE__ + 2;
__global__ void store_behind(float* y, std::size_t n) {
  if (cuda::grid_thread() <= n) y[cuda::grid_thread()] = 1; // <= for <
}

void run_store_behind() {
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, 100);
  cuda::launch(std::get<cuda_stream>(queue.where()), "store", 1, 128, 0, store_behind, y.data(), y.size());
  queue.finish();
}

TEST_F(Bounds, OfAnAllocationAreWatched) {
  if (simulated_gpu::with_address_sanitizer)
    EXPECT_DEATH(run_store_behind(), AllOf(HasSubstr("AddressSanitizer"),
                                           HasSubstr(fmt::format("bounds_test.cpp:{}", store_line))));
  else
    EXPECT_EQ(refusal(run_store_behind),
              "cuda:0: store: kernel store stored behind an allocation of 400 bytes");
}

constexpr unsigned load_line = __LINE__ + 1;
__global__ void load_behind(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x + 1]; }

void run_load_behind() {
  cuda::gpu_queue queue(0);
  const gpu_array<float> x(queue, 64), y(queue, 64);
  cuda::launch(std::get<cuda_stream>(queue.where()), "load", 1, 64, 0, load_behind, x.data(), y.data());
}

TEST_F(Bounds, OfLoadsAreWatchedByAddressSanitizer) {
  if (!simulated_gpu::with_address_sanitizer) GTEST_SKIP() << "no AddressSanitizer";
  EXPECT_DEATH(run_load_behind(), AllOf(HasSubstr("AddressSanitizer"), HasSubstr("READ of size 4"),
                                        HasSubstr(fmt::format("bounds_test.cpp:{}", load_line))));
}

constexpr unsigned pack_line = __LINE__ + 2;
__global__ void load_pack_of(const float* x, float* y) {
  const auto pack = *reinterpret_cast<const cuda::float_pack*>(x);
  y[threadIdx.x] = pack.v[threadIdx.x];
}

void run_load_pack(std::size_t shift) {
  cuda::gpu_queue queue(0);
  const gpu_array<float> x(queue, 8), y(queue, 4);
  cuda::launch(std::get<cuda_stream>(queue.where()), "load", 1, 4, 0, load_pack_of, x.data() + shift,
               y.data());
  queue.finish();
}

TEST_F(Bounds, OfPacksLieAtMultiplesOfTheirSize) {
#ifdef __clang__
  GTEST_SKIP() << "clang 16 does not check a copy of a whole pack";
#endif
  run_load_pack(4);
  EXPECT_DEATH(run_load_pack(1), AllOf(HasSubstr("misaligned address"),
                                       HasSubstr(fmt::format("bounds_test.cpp:{}", pack_line))));
}

constexpr unsigned shared_line = __LINE__ + 2;
__global__ void store_in_shared(float* y) {
  cuda::shared_memory<float>()[threadIdx.x] = 1;
  y[threadIdx.x] = 1;
}

void run_store_in_shared() {
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, 64);
  cuda::launch(std::get<cuda_stream>(queue.where()), "shared", 1, 64, 63 * sizeof(float), store_in_shared,
               y.data());
}

TEST_F(Bounds, OfSharedMemoryAreWatchedByAddressSanitizer) {
  if (!simulated_gpu::with_address_sanitizer) GTEST_SKIP() << "no AddressSanitizer";
  EXPECT_DEATH(run_store_in_shared(), AllOf(HasSubstr("heap-buffer-overflow"),
                                            HasSubstr(fmt::format("bounds_test.cpp:{}", shared_line))));
}

void read_on_host() {
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, 64);
  const volatile float found = y.data()[3];
  static_cast<void>(found);
}

TEST_F(Bounds, KeepTheHostFromMemoryOfAGpu) {
  if (!simulated_gpu::with_address_sanitizer) GTEST_SKIP() << "no AddressSanitizer";
  EXPECT_DEATH(read_on_host(), AllOf(HasSubstr("use-after-poison"), HasSubstr("read_on_host")));
}

void use_what_was_released() {
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, 64); // before the other, whose place it would get
  const float* kept = nullptr;
  {
    const gpu_array<float> x(queue, std::vector<float>(64, 1));
    kept = x.data();
  }
  cuda::launch(std::get<cuda_stream>(queue.where()), "late", 1, 63, 0, load_behind, kept, y.data());
  queue.finish();
}

TEST_F(Bounds, OfReleasedMemoryAreNone) {
  const std::string why = "argument 1 holds, at byte 0, an address that is not of the GPU";
  EXPECT_THAT(refusal(use_what_was_released), HasSubstr(why));
}

struct two_arrays {
  const float* from;
  float* to;
  std::size_t n;
};

__global__ void copy_array(two_arrays a) {
  if (threadIdx.x < a.n) a.to[threadIdx.x] = a.from[threadIdx.x];
}

TEST_F(Bounds, KeepAGpuFromMemoryOfTheHost) {
  cuda::gpu_queue queue(0);
  const std::vector<float> x(64, 1);
  const gpu_array<float> y(queue, 64);
  EXPECT_THAT(
      refusal([&] {
        cuda::launch(stream_of(queue), "copy", 1, 64, 0, copy_array, two_arrays{x.data(), y.data(), 64});
      }),
      HasSubstr("kernel copy: argument 1 holds, at byte 0, an address that is not of the GPU"));
}

TEST_F(Bounds, OfACopyAreChecked) {
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, 64);
  std::vector<float> x(65);
  EXPECT_EQ(
      refusal([&] { cuda::runtime::copy(stream_of(queue).stream, y.data(), x.data(), 65 * sizeof(float)); }),
      "cuda:0: cudaMemcpyAsync: invalid argument");
  EXPECT_EQ(
      refusal([&] { cuda::runtime::fill(stream_of(queue).stream, y.data() + 1, 0, 64 * sizeof(float)); }),
      "cuda:0: cudaMemsetAsync: invalid argument");
}

TEST_F(Bounds, OfAGridAreThoseOfAGpu) {
  cuda::gpu_queue queue(0);
  const auto launched = [&](dim3 grid, dim3 block, std::size_t shared) {
    return refusal(
        [&] { cuda::launch(stream_of(queue), "copy", grid, block, shared, copy_array, two_arrays{}); });
  };
  EXPECT_EQ(launched(1, 1025, 0), "cuda:0: copy: a block of 1025x1x1 threads; a GPU runs 1 to 1024");
  EXPECT_EQ(launched(0, 32, 0), "cuda:0: copy: a grid of 0x1x1 blocks");
  EXPECT_EQ(launched({1, 65536}, 32, 0), "cuda:0: copy: a grid of 1x65536x1 blocks");
  EXPECT_EQ(launched(1, 32, 101377), "cuda:0: copy: 101377 bytes of shared memory; a block has 99 KiB");
  EXPECT_EQ(launched(1, 32, 49152), "");
}

} // namespace
} // namespace mailgrad
