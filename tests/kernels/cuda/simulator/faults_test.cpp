#include "simulator_test.hpp"

#include <mailgrad/kernels/cuda/missing_gpu.hpp>
#include <mailgrad/kernels/cuda/products.hpp>

#include <future>

// What may go wrong with a GPU that is used as it should be, or with its products.
namespace mailgrad {
namespace {

using cuda::in_words;
using simulated_gpu::machine, simulated_gpu::set_up;
using testing::HasSubstr, testing::IsEmpty, testing::MatchesRegex, testing::SizeIs, testing::gpu_array,
    testing::stream_of;

__global__ void touch(float* y) { y[threadIdx.x] = 1; }

class Faults : public testing::simulator_test {
protected:
  template <class Call>
  static std::string refusal_on_new_thread(const Call& call) {
    return std::async(std::launch::async, [&] { return refusal(call); }).get();
  }
  /// What is said when a kernel touches `y` on this queue.
  static std::string refusal_of_touch(const cuda::gpu_queue& queue, const gpu_array<float>& y) {
    return refusal([&] { cuda::launch(stream_of(queue), "touch", 1, 4, 0, touch, y.data()); });
  }
};

TEST_F(Faults, LeaveAGpuUsableAfterItsMemoryRanOut) {
  cuda::gpu_queue queue(0);
  set_up({.fail = {.out_of_memory_at = 2}, .memory_bytes = std::size_t{3} << 30});
  const gpu_array<float> first(queue, 4);
  EXPECT_THAT(refusal([&] { const gpu_array<float> second(queue, 4); }),
              MatchesRegex("cuda:0: out of memory: 16 bytes asked for, .* of 3.0 GiB free"));
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
    const auto is_fault = HasSubstr("an illegal memory access was encountered");
    EXPECT_THAT(refusal(run), is_fault);
    EXPECT_THAT(refusal(run), is_fault);
    EXPECT_THAT(refusal([&] { queue.allocate(4); }), is_fault);
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
  EXPECT_THAT(refusal_on_new_thread([&] { cuda::runtime::has_passed(event.get()); }),
              HasSubstr("no GPU is current on this thread"));
}

TEST_F(Faults, ComeOfNothingThatAQueueDoesOnAnyThread) {
  set_up({.gpus = 2});
  cuda::gpu_queue queue(1);
  const memory there = queue.allocate(16);
  memory here = queue.lend_on_host(16);
  const device_event before = queue.record();
  EXPECT_EQ(refusal_on_new_thread([&] { static_cast<void>(before.passed()); }), "");
  EXPECT_EQ(refusal_on_new_thread([&] { queue.wait_for(before); }), "");
  EXPECT_EQ(refusal_on_new_thread([&] { static_cast<void>(queue.record()); }), "");
  EXPECT_EQ(refusal_on_new_thread([&] { queue.copy_to_host(there, 0, here); }), "");
  EXPECT_EQ(refusal_on_new_thread([&] { queue.finish(); }), "");
  EXPECT_EQ(refusal_on_new_thread([&] { queue.take_fault(); }), "");
}

TEST_F(Faults, OfTheMachineAreToldInOneLine) {
  for (const auto& [has, words] : {std::pair(machine::without_driver, "no NVIDIA driver could be opened"),
                                   std::pair(machine::with_old_driver, "the driver is for CUDA 11.4"),
                                   std::pair(machine::without_gpu, "finds no GPU")}) {
    set_up({.has = has});
    EXPECT_THAT(cuda::runtime::find_gpus().why_none, HasSubstr(words));
  }
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
  EXPECT_NE(refusal_of_touch(first, x), "");
  EXPECT_EQ(refusal_of_touch(second, y), "");
  EXPECT_THAT(refusal_of_touch(second, x), HasSubstr("an address of cuda:0"));
}

TEST(MissingGpu, IsExplainedByTheDriver) {
  EXPECT_EQ(in_words({.built_for = 13020}),
            "no NVIDIA driver could be opened (libcuda.so.1); this build needs one for CUDA 13.0");
  EXPECT_EQ(in_words({.driver = 12040, .built_for = 13020}),
            "the driver is for CUDA 12.4, and this build needs one for CUDA 13.0");
  EXPECT_EQ(in_words({.driver = 13000, .built_for = 13020, .failure = "system not yet initialized"}),
            "the driver for CUDA 13.0 says: system not yet initialized");
  EXPECT_EQ(in_words({.driver = 14010, .built_for = 13020}), "the driver for CUDA 14.1 finds no GPU");
  EXPECT_EQ(in_words({.driver = 13000, .built_for = 13020, .too_old = true}),
            "the driver is for CUDA 13.0, which the runtime of CUDA 13.2 in this build finds too old");
}

TEST(MissingGpu, MayBeHiddenByTheEnvironment) {
  EXPECT_EQ(in_words({.driver = 13000, .built_for = 13020, .visible = ""}),
            "the driver for CUDA 13.0 finds no GPU among those that CUDA_VISIBLE_DEVICES names: ''");
  EXPECT_EQ(in_words({.driver = 13000, .built_for = 13020, .visible = "1\n2"}),
            "the driver for CUDA 13.0 finds no GPU among those that CUDA_VISIBLE_DEVICES names: '1 2'");
}

class SimulatedProducts : public testing::simulator_test {
protected:
  /// What is said of a product of 4 x 5 by 5 x 6 with operands of these sizes.
  static std::string refusal_of(std::size_t a, std::size_t b, std::size_t c, std::size_t bias = 6) {
    cuda::gpu_queue queue(0);
    const gpu_array<float> x(queue, a), y(queue, b), z(queue, c), v(queue, bias);
    const cuda_stream& s = stream_of(queue);
    return refusal([&] { s.products->run(s, {4, 6, 5}, x.data(), y.data(), z.data(), v.data()); });
  }
};

TEST_F(SimulatedProducts, NeedOperandsAsLongAsTheirShapes) {
  EXPECT_EQ(refusal_of(20, 30, 24), "");
  EXPECT_EQ(refusal_of(19, 30, 24), "gemm: A has 20 elements, but only 19 are allocated");
  EXPECT_EQ(refusal_of(20, 29, 24), "gemm: B has 30 elements, but only 29 are allocated");
  EXPECT_EQ(refusal_of(20, 30, 23), "gemm: C has 24 elements, but only 23 are allocated");
  EXPECT_EQ(refusal_of(20, 30, 24, 5), "gemm: the bias has 6 elements, but only 5 are allocated");
}

TEST_F(SimulatedProducts, NeedMemoryOfTheirGpu) {
  cuda::gpu_queue queue(0);
  const std::vector<float> x(20);
  const gpu_array<float> y(queue, 30), z(queue, 24);
  const cuda_stream& s = stream_of(queue);
  const gemm_shape g{4, 6, 5};
  EXPECT_EQ(refusal([&] { s.products->run(s, g, x.data(), y.data(), z.data()); }),
            "gemm: A is no memory of cuda:0");
}

/// 1 + 2^-11 is as near to 1 as to the next number of TF32, and is rounded away from 0.
TEST_F(SimulatedProducts, InTf32RoundTheirOperands) {
  for (const auto& [precision, expected] :
       {std::pair(product_precision::float32, 1 + 0x1p-11F), std::pair(product_precision::tf32, 1 + 0x1p-10F),
        std::pair(product_precision::bfloat16, 1 + 0x1p-11F)}) { // here it is the caller who rounds
    cuda::gpu_queue queue(0, precision);
    const gpu_array<float> x(queue, std::vector{1 + 0x1p-11F}), y(queue, std::vector{1.0F}), z(queue, 1);
    const cuda_stream& s = stream_of(queue);
    EXPECT_EQ(s.products->precision(), precision);
    s.products->run(s, {1, 1, 1}, x.data(), y.data(), z.data());
    EXPECT_EQ(z.read().front(), expected) << name(precision);
    s.products->run(s, {1, 1, 1}, y.data(), x.data(), z.data());
    EXPECT_EQ(z.read().front(), expected) << name(precision);
  }
}

} // namespace
} // namespace mailgrad
