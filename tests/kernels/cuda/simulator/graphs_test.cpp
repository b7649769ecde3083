#include "simulator_test.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <thread>
#include <vector>

// What a graph keeps, and what must not be asked while one is captured.
namespace mailgrad {
namespace {

using testing::Each;
using testing::gpu_array;
using testing::HasSubstr;

class Graphs : public testing::simulator_test {
protected:
  static constexpr const char* not_permitted = "operation not permitted when stream is capturing";
};

__global__ void add_to(float* y, float value) { y[threadIdx.x] += value; }

TEST_F(Graphs, ReplayWhatWasQueuedWithItsArguments) {
  for (const auto when : {simulated_gpu::timing::eager, simulated_gpu::timing::late}) {
    simulated_gpu::set_up({.when = when});
    cuda::gpu_queue queue(0);
    void* const stream = stream_of(queue).stream;
    const gpu_array<float> y(queue, std::vector<float>(8, 1));
    float value = 2;
    cuda::runtime::begin_capture(stream);
    cuda::launch(stream_of(queue), "add", 1, 8, 0, add_to, y.data(), value);
    cuda::launch(stream_of(queue), "add", 1, 8, 0, add_to, y.data(), 10.0F);
    void* const graph = cuda::runtime::end_capture(stream);
    value = 100;
    EXPECT_EQ(simulated_gpu::count().kernels, 0U) << "captured, not run";
    for (int i = 0; i < 2; ++i) cuda::runtime::launch_graph(graph, stream);
    EXPECT_THAT(y.read(), Each(25.0F));
    EXPECT_EQ(simulated_gpu::count().kernels, 4U);
    EXPECT_EQ(simulated_gpu::count().launches, 2U);
    cuda::runtime::destroy_graph(graph);
  }
}

TEST_F(Graphs, AreBrokenByAWait) {
  cuda::gpu_queue queue(0);
  void* const stream = stream_of(queue).stream;
  cuda::runtime::begin_capture(stream);
  EXPECT_THAT(refusal([&] { cuda::runtime::synchronise(stream); }), HasSubstr(not_permitted));
  EXPECT_THAT(refusal([&] { cuda::runtime::end_capture(stream); }),
              HasSubstr("previous error during capture"));
  cuda::runtime::synchronise(stream); // it is a stream as any other once more
}

TEST_F(Graphs, AreBrokenByAnAllocation) {
  cuda::gpu_queue queue(0);
  void* const stream = stream_of(queue).stream;
  cuda::runtime::begin_capture(stream);
  EXPECT_THAT(refusal([&] { cuda::runtime::allocate(0, 64); }), HasSubstr(not_permitted));
  EXPECT_THAT(refusal([&] { cuda::runtime::end_capture(stream); }), HasSubstr("cudaMalloc"));
}

TEST_F(Graphs, AreBrokenByAReleaseThatLosesItsMemory) {
  cuda::gpu_queue queue(0);
  void* const stream = stream_of(queue).stream;
  std::optional<memory> block = queue.allocate(64);
  const std::size_t before = simulated_gpu::count().bytes_now;
  cuda::runtime::begin_capture(stream);
  block.reset();
  EXPECT_THAT(refusal([&] { cuda::runtime::end_capture(stream); }), HasSubstr("cudaFree"));
  EXPECT_EQ(simulated_gpu::count().bytes_now, before);
  queue.finish(); // it is a stream as any other once more
}

TEST_F(Graphs, AreBrokenByAReleaseOfPinnedMemory) {
  cuda::gpu_queue queue(0);
  void* const stream = stream_of(queue).stream;
  std::optional<cuda::pinned_block> pinned(16);
  cuda::runtime::begin_capture(stream);
  pinned.reset();
  EXPECT_THAT(refusal([&] { cuda::runtime::end_capture(stream); }), HasSubstr("cudaFreeHost"));
}

TEST_F(Graphs, OfAnotherThreadLeaveAReleaseAlone) {
  cuda::gpu_queue queue(0);
  void* const stream = stream_of(queue).stream;
  std::optional<memory> block = queue.allocate(64);
  const std::size_t before = simulated_gpu::count().bytes_now;
  cuda::runtime::begin_capture(stream);
  std::thread([&] { block.reset(); }).join();
  EXPECT_EQ(simulated_gpu::count().bytes_now, before - 64);
  cuda::runtime::destroy_graph(cuda::runtime::end_capture(stream));
}

TEST_F(Graphs, AreBrokenByACopyOfPageableMemory) {
  cuda::gpu_queue queue(0);
  void* const stream = stream_of(queue).stream;
  const gpu_array<float> y(queue, 4);
  cuda::pinned_block pinned(16);
  std::array<float, 4> pageable{};
  cuda::runtime::begin_capture(stream);
  cuda::runtime::copy(stream, y.data(), pinned.as<float>().data(), 16);
  EXPECT_THAT(refusal([&] { cuda::runtime::copy(stream, y.data(), pageable.data(), 16); }),
              HasSubstr(not_permitted));
  EXPECT_THAT(refusal([&] { cuda::runtime::end_capture(stream); }), HasSubstr("pageable"));
}

TEST_F(Graphs, DoNotWaitForWorkOutside) {
  cuda::gpu_queue queue(0), other(0);
  const device_event outside = other.record();
  cuda::runtime::begin_capture(stream_of(queue).stream);
  EXPECT_THAT(refusal([&] { queue.wait_for(outside); }), HasSubstr("dependency created on uncaptured work"));
  EXPECT_NE(refusal([&] { cuda::runtime::end_capture(stream_of(queue).stream); }), "");
}

TEST_F(Graphs, KeepEventsThatNobodyMayAsk) {
  cuda::gpu_queue queue(0), other(0);
  cuda::runtime::begin_capture(stream_of(queue).stream);
  const device_event inside = queue.record();
  queue.wait_for(inside);
  EXPECT_THAT(refusal([&] { static_cast<void>(inside.passed()); }), HasSubstr("capturing stream"));
  EXPECT_THAT(refusal([&] { other.wait_for(inside); }), HasSubstr("capturing stream"));
  cuda::runtime::destroy_graph(cuda::runtime::end_capture(stream_of(queue).stream));
}

} // namespace
} // namespace mailgrad
