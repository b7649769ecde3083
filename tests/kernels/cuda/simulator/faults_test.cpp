#include "simulator_test.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

// What may go wrong with a GPU that is used as it should be.
namespace mailgrad {
namespace {

using simulated_gpu::machine;
using simulated_gpu::set_up;
using testing::gpu_array;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class Faults : public testing::simulator_test {};

__global__ void touch(float* y) { y[threadIdx.x] = 1; }

TEST_F(Faults, LeaveAGpuUsableAfterItsMemoryRanOut) {
  cuda::gpu_queue queue(0);
  set_up({.fail = {.out_of_memory_at = 2}, .memory_bytes = std::size_t{3} << 30});
  const gpu_array<float> first(queue, 4);
  EXPECT_THAT(refusal([&] { const gpu_array<float> second(queue, 4); }),
              testing::MatchesRegex("cuda:0: out of memory: 16 bytes asked for, .* of 3.0 GiB free"));
  const gpu_array<float> third(queue, 4);
}

TEST_F(Faults, ComeOfMoreMemoryThanTheGpuHas) {
  cuda::gpu_queue queue(0);
  set_up({.memory_bytes = std::size_t{4} << 20});
  EXPECT_THAT(refusal([&] { const gpu_array<float> y(queue, std::size_t{1} << 20); }),
              HasSubstr("out of memory"));
}

/// The driver takes memory for them as well.
TEST_F(Faults, OfMemoryForStreamsEventsAndGraphsNameTheGpuAndWhatFor) {
  set_up({.fail = {.driver_out_of_memory_at = 1}, .gpus = 2});
  EXPECT_EQ(refusal([] { const cuda::gpu_queue queue(1); }),
            "cuda:1: out of memory: cudaStreamCreateWithPriority, for a stream of work");
  cuda::gpu_queue queue(0);
  const auto lacking = [&](const auto& call) {
    set_up({.fail = {.driver_out_of_memory_at = 1}});
    EXPECT_THROW(call(), out_of_memory);
    set_up({.fail = {.driver_out_of_memory_at = 1}});
    return refusal(call);
  };
  EXPECT_EQ(lacking([&] { static_cast<void>(queue.record()); }),
            "cuda:0: out of memory: cudaEventCreateWithFlags, for an event in a stream");
  EXPECT_EQ(lacking([&] { const cuda::captured_graph graph(stream_of(queue).stream, [] {}); }),
            "cuda:0: out of memory: cudaGraphInstantiate, for the graph of a step");
  EXPECT_EQ(refusal([&] { static_cast<void>(queue.record()); }), "") << "the queue works on";
}

TEST_F(Faults, OfALaunchStayUntilTheEnd) {
  for (const auto when : {simulated_gpu::timing::eager, simulated_gpu::timing::late}) {
    set_up({.when = when, .fail = {.launch_error_at = 2}});
    cuda::gpu_queue queue(0);
    const gpu_array<float> y(queue, 4);
    const auto run = [&] {
      cuda::launch(stream_of(queue), "touch", 1, 4, 0, touch, y.data());
      queue.finish();
    };
    EXPECT_EQ(refusal(run), "");
    EXPECT_THAT(refusal(run), HasSubstr("an illegal memory access was encountered"));
    EXPECT_THAT(refusal(run), HasSubstr("an illegal memory access was encountered"));
    EXPECT_THAT(refusal([&] { queue.allocate(4); }), HasSubstr("an illegal memory access was encountered"));
  }
}

TEST_F(Faults, OfALostGpuFailEveryCall) {
  cuda::gpu_queue queue(0);
  set_up({.fail = {.lost_gpu_at = 2}});
  queue.finish();
  EXPECT_THAT(refusal([&] { queue.finish(); }), HasSubstr("the GPU is lost"));
  EXPECT_THAT(refusal([&] { queue.record(); }), HasSubstr("the GPU is lost"));
}

TEST_F(Faults, LeaveAHostUsableAfterPinnedMemoryRanOut) {
  cuda::gpu_queue queue(0);
  set_up({.fail = {.pinned_out_of_memory_at = 2}});
  const cuda::pinned_block first(16);
  EXPECT_EQ(refusal([] { const cuda::pinned_block second(16); }),
            "pinned memory of the host: out of memory: 16 bytes asked for");
  const cuda::pinned_block third(16);
}

/// CUDA would wake the first GPU for such a call.
TEST_F(Faults, AreCallsOfAThreadForWhichNoGpuIsCurrent) {
  const cuda::owned_event event(0);
  std::future<std::string> asked = std::async(
      std::launch::async, [&] { return refusal([&] { cuda::runtime::has_passed(event.get()); }); });
  EXPECT_THAT(asked.get(), HasSubstr("no GPU is current on this thread"));
}

TEST_F(Faults, ComeOfNothingThatAQueueDoesOnAnyThread) {
  set_up({.gpus = 2});
  cuda::gpu_queue queue(1);
  const memory there = queue.allocate(16);
  memory here = queue.lend_on_host(16);
  const device_event before = queue.record();
  const auto on_new_thread = [](const auto& call) {
    return std::async(std::launch::async, [&] { return refusal(call); }).get();
  };
  EXPECT_EQ(on_new_thread([&] { static_cast<void>(before.passed()); }), "");
  EXPECT_EQ(on_new_thread([&] { queue.wait_for(before); }), "");
  EXPECT_EQ(on_new_thread([&] { static_cast<void>(queue.record()); }), "");
  EXPECT_EQ(on_new_thread([&] { queue.copy_to_host(there, 0, here); }), "");
  EXPECT_EQ(on_new_thread([&] { queue.finish(); }), "");
  EXPECT_EQ(on_new_thread([&] { queue.take_fault(); }), "");
}

TEST_F(Faults, OfTheMachineAreToldInOneLine) {
  set_up({.has = machine::without_driver});
  EXPECT_THAT(cuda::runtime::find_gpus().why_none, HasSubstr("no NVIDIA driver could be opened"));
  set_up({.has = machine::with_old_driver});
  EXPECT_THAT(cuda::runtime::find_gpus().why_none, HasSubstr("the driver is for CUDA 11.4"));
  set_up({.has = machine::without_gpu});
  EXPECT_THAT(cuda::runtime::find_gpus().why_none, HasSubstr("finds no GPU"));
  EXPECT_THAT(cuda::runtime::find_gpus().gpus, IsEmpty());
  EXPECT_NE(refusal([] { const cuda::gpu_queue queue(0); }), "");
}

TEST_F(Faults, OfAGpuThatTellsNothingHideNoOther) {
  set_up({.fail = {.silent_gpu = 1}, .gpus = 3});
  const auto found = cuda::runtime::find_gpus();
  ASSERT_THAT(found.gpus, SizeIs(3));
  EXPECT_EQ(found.gpus[1].why_unknown, "unknown error");
  for (const std::size_t number : {0U, 2U}) {
    EXPECT_EQ(found.gpus[number].name, "simulated GPU");
    EXPECT_EQ(found.gpus[number].why_unknown, "");
  }
}

TEST_F(Faults, AreOfOneGpuAmongSeveral) {
  set_up({.fail = {.launch_error_at = 1}, .gpus = 2});
  EXPECT_THAT(cuda::runtime::find_gpus().gpus, SizeIs(2));
  cuda::gpu_queue first(0), second(1);
  const gpu_array<float> x(first, 4), y(second, 4);
  EXPECT_NE(refusal([&] { cuda::launch(stream_of(first), "touch", 1, 4, 0, touch, x.data()); }), "");
  EXPECT_EQ(refusal([&] { cuda::launch(stream_of(second), "touch", 1, 4, 0, touch, y.data()); }), "");
  EXPECT_THAT(refusal([&] { cuda::launch(stream_of(second), "touch", 1, 4, 0, touch, x.data()); }),
              HasSubstr("an address of cuda:0"));
}

} // namespace
} // namespace mailgrad
