#include "simulator_test.hpp"

// Memory that a kernel, or the host, must not touch.
namespace mailgrad {
namespace {

using testing::AllOf, testing::HasSubstr, testing::at_line, testing::gpu_array, testing::stream_of;

class Bounds : public testing::simulator_test {
protected:
  Bounds() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

constexpr unsigned store_line = __LINE__ + 2;
__global__ void store_behind(float* y, std::size_t n) {
  if (cuda::grid_thread() <= n) y[cuda::grid_thread()] = 1; // <= for <
}

TEST_F(Bounds, OfAnAllocationAreWatched) {
  const auto run = [] {
    cuda::gpu_queue queue(0);
    const gpu_array<float> y(queue, 100);
    cuda::launch(stream_of(queue), "store", 1, 128, 0, store_behind, y.data(), y.size());
    queue.finish();
  };
  if (simulated_gpu::with_address_sanitizer)
    EXPECT_DEATH(run(), AllOf(HasSubstr("AddressSanitizer"), HasSubstr(at_line(store_line))));
  else
    EXPECT_EQ(refusal(run), "cuda:0: store: kernel store stored behind an allocation of 400 bytes");
}

constexpr unsigned load_line = __LINE__ + 1;
__global__ void load_behind(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x + 1]; }

TEST_F(Bounds, OfLoadsAreWatchedByAddressSanitizer) {
  if (!simulated_gpu::with_address_sanitizer) GTEST_SKIP() << "no AddressSanitizer";
  const auto run = [] {
    cuda::gpu_queue queue(0);
    const gpu_array<float> x(queue, 64), y(queue, 64);
    cuda::launch(stream_of(queue), "load", 1, 64, 0, load_behind, x.data(), y.data());
  };
  EXPECT_DEATH(run(), AllOf(HasSubstr("AddressSanitizer"), HasSubstr("READ of size 4"),
                            HasSubstr(at_line(load_line))));
}

constexpr unsigned pack_line = __LINE__ + 2;
__global__ void load_pack_of(const float* x, float* y) {
  const auto pack = *reinterpret_cast<const cuda::float_pack*>(x);
  y[threadIdx.x] = pack.v[threadIdx.x];
}

TEST_F(Bounds, OfPacksLieAtMultiplesOfTheirSize) {
#ifdef __clang__
  GTEST_SKIP() << "clang 16 does not check a copy of a whole pack";
#endif
  const auto run_shifted = [](std::size_t shift) {
    cuda::gpu_queue queue(0);
    const gpu_array<float> x(queue, 8), y(queue, 4);
    cuda::launch(stream_of(queue), "load", 1, 4, 0, load_pack_of, x.data() + shift, y.data());
    queue.finish();
  };
  run_shifted(4);
  EXPECT_DEATH(run_shifted(1), AllOf(HasSubstr("misaligned address"), HasSubstr(at_line(pack_line))));
}

constexpr unsigned shared_line = __LINE__ + 2;
__global__ void store_in_shared(float* y) {
  cuda::shared_memory<float>()[threadIdx.x] = 1;
  y[threadIdx.x] = 1;
}

TEST_F(Bounds, OfSharedMemoryAreWatchedByAddressSanitizer) {
  if (!simulated_gpu::with_address_sanitizer) GTEST_SKIP() << "no AddressSanitizer";
  const auto run = [] {
    cuda::gpu_queue queue(0);
    const gpu_array<float> y(queue, 64);
    cuda::launch(stream_of(queue), "shared", 1, 64, 63 * sizeof(float), store_in_shared, y.data());
  };
  EXPECT_DEATH(run(), AllOf(HasSubstr("heap-buffer-overflow"), HasSubstr(at_line(shared_line))));
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

TEST_F(Bounds, OfReleasedMemoryAreNone) {
  const auto use_what_was_released = [] {
    cuda::gpu_queue queue(0);
    const gpu_array<float> y(queue, 64); // before the other, whose place it would get
    const float* const kept = gpu_array<float>(queue, std::vector<float>(64, 1)).data();
    cuda::launch(stream_of(queue), "late", 1, 63, 0, load_behind, kept, y.data());
    queue.finish();
  };
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
  const two_arrays arrays{x.data(), y.data(), 64};
  EXPECT_THAT(refusal([&] { cuda::launch(stream_of(queue), "copy", 1, 64, 0, copy_array, arrays); }),
              HasSubstr("kernel copy: argument 1 holds, at byte 0, an address that is not of the GPU"));
}

TEST_F(Bounds, OfACopyAreChecked) {
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, 64);
  std::vector<float> x(65);
  void* const stream = stream_of(queue).stream;
  EXPECT_EQ(refusal([&] { cuda::runtime::copy(stream, y.data(), x.data(), 65 * sizeof(float)); }),
            "cuda:0: cudaMemcpyAsync: invalid argument");
  EXPECT_EQ(refusal([&] { cuda::runtime::fill(stream, y.data() + 1, 0, 64 * sizeof(float)); }),
            "cuda:0: cudaMemsetAsync: invalid argument");
}

TEST_F(Bounds, OfAGridAreThoseOfAGpu) {
  cuda::gpu_queue queue(0);
  const auto launched = [&](dim3 grid, dim3 block, std::size_t shared) {
    const two_arrays none{};
    return refusal([&] { cuda::launch(stream_of(queue), "copy", grid, block, shared, copy_array, none); });
  };
  EXPECT_EQ(launched(1, 1025, 0), "cuda:0: copy: a block of 1025x1x1 threads; a GPU runs 1 to 1024");
  EXPECT_EQ(launched(0, 32, 0), "cuda:0: copy: a grid of 0x1x1 blocks");
  EXPECT_EQ(launched({1, 65536}, 32, 0), "cuda:0: copy: a grid of 1x65536x1 blocks");
  EXPECT_EQ(launched(1, 32, 101377), "cuda:0: copy: 101377 bytes of shared memory; a block has 99 KiB");
  EXPECT_EQ(launched(1, 32, 49152), "");
}

} // namespace
} // namespace mailgrad
