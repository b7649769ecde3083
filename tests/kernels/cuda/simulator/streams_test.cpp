#include "simulator_test.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <thread>
#include <vector>

// When what is queued on a stream runs.
namespace mailgrad {
namespace {

using simulated_gpu::timing;
using testing::Each;
using testing::gpu_array;

class Streams : public testing::simulator_test {
protected:
  static void run_late() { simulated_gpu::set_up({.when = timing::late}); }
  static std::uint64_t kernels() { return simulated_gpu::count().kernels; }
};

__global__ void fill_with(float* y, float value) { y[threadIdx.x] = value; }
__global__ void copy_values(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }

void fill_on(const cuda_stream& s, const gpu_array<float>& y, float value) {
  cuda::launch(s, "fill", 1, static_cast<unsigned>(y.size()), 0, fill_with, y.data(), value);
}

TEST_F(Streams, RunAtOnceOrWhenSomebodyWaits) {
  for (const timing when : {timing::eager, timing::late}) {
    simulated_gpu::set_up({.when = when});
    cuda::gpu_queue queue(0);
    const gpu_array<float> y(queue, 8);
    fill_on(stream_of(queue), y, 3);
    EXPECT_EQ(kernels(), when == timing::eager ? 1U : 0U);
    queue.finish();
    EXPECT_EQ(kernels(), 1U);
    EXPECT_THAT(y.read(), Each(3.0F));
  }
}

TEST_F(Streams, PassAnEventAfterSomeQuestions) {
  simulated_gpu::set_up({.when = timing::late, .late_queries = 3});
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, 8);
  fill_on(stream_of(queue), y, 3);
  const device_event filled = queue.record();
  for (int question = 0; question < 3; ++question) EXPECT_FALSE(filled.passed());
  EXPECT_EQ(kernels(), 0U);
  EXPECT_TRUE(filled.passed());
  EXPECT_EQ(kernels(), 1U);
}

/// Two streams, of which the second waits for the first: who draws has the choice where there is one.
TEST_F(Streams, RunEntriesAsTheyAreDrawn) {
  cuda::gpu_queue first(0), second(0);
  const gpu_array<float> x(first, 8), y(second, 8);
  simulated_gpu::set_up({.when = timing::drawn});
  fill_on(stream_of(first), x, 1);
  fill_on(stream_of(second), y, 1);
  const device_event filled = first.record();
  second.wait_for(filled);
  fill_on(stream_of(second), y, 2);
  for (int question = 0; question < 9; ++question) EXPECT_FALSE(filled.passed());
  EXPECT_TRUE(simulated_gpu::run_next(1));
  EXPECT_EQ(kernels(), 1U) << "the first of the second stream";
  EXPECT_TRUE(simulated_gpu::run_next(1));
  EXPECT_EQ(kernels(), 2U) << "of the first stream, since the second waits";
  EXPECT_FALSE(filled.passed());
  EXPECT_TRUE(simulated_gpu::run_next(7));
  EXPECT_TRUE(filled.passed());
  while (simulated_gpu::run_next(0)) {
  }
  EXPECT_EQ(kernels(), 3U);
  EXPECT_THAT(y.read(), Each(2.0F));
}

/// A copy of what another stream writes, with the wait for it or without.
std::vector<float> copied(bool waits) {
  cuda::gpu_queue writer(0), reader(0);
  const gpu_array<float> x(writer, 8), y(reader, 8);
  writer.finish();
  fill_on(std::get<cuda_stream>(writer.where()), x, 3);
  const device_event written = writer.record();
  if (waits) reader.wait_for(written);
  cuda::launch(std::get<cuda_stream>(reader.where()), "copy", 1, 8, 0, copy_values, x.data(), y.data());
  return y.read();
}

TEST_F(Streams, RunLateShowAForgottenWait) {
  if (simulated_gpu::with_thread_sanitizer) GTEST_SKIP() << "it reports the race, as races_test.cpp shows";
  EXPECT_THAT(copied(false), Each(3.0F)) << "eagerly, nobody sees it";
  run_late();
  EXPECT_THAT(copied(true), Each(3.0F));
  EXPECT_THAT(copied(false), Each(testing::IsNan()));
}

TEST_F(Streams, ReadPinnedMemoryWhenACopyRuns) {
  if (simulated_gpu::with_thread_sanitizer) GTEST_SKIP() << "it reports the race";
  run_late();
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, 4);
  cuda::pinned_block pinned(4 * sizeof(float));
  pinned.as<float>()[0] = 1;
  cuda::runtime::copy(stream_of(queue).stream, y.data(), pinned.as<float>().data(), pinned.bytes());
  pinned.as<float>()[0] = 2; // too early
  EXPECT_EQ(y.read()[0], 2);
}

TEST_F(Streams, ReadPageableMemoryBeforeACopyReturns) {
  run_late();
  cuda::gpu_queue queue(0);
  std::vector<float> x(4, 1);
  const gpu_array<float> y(queue, x);
  x[0] = 2;
  EXPECT_THAT(y.read(), Each(1.0F));
}

TEST_F(Streams, WriteToTheHostBeforeACopyReturns) {
  run_late();
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, 4);
  fill_on(stream_of(queue), y, 3);
  std::vector<float> x(4);
  cuda::runtime::copy(stream_of(queue).stream, x.data(), y.data(), 4 * sizeof(float));
  EXPECT_THAT(x, Each(3.0F));
}

TEST_F(Streams, RunBeforeMemoryOfTheirGpuIsReleased) {
  run_late();
  cuda::gpu_queue queue(0);
  {
    const gpu_array<float> y(queue, 4);
    fill_on(stream_of(queue), y, 3);
    EXPECT_EQ(kernels(), 0U);
  }
  EXPECT_EQ(kernels(), 1U);
}

TEST_F(Streams, MeasureTheTimeBetweenTimedEvents) {
  cuda::gpu_queue queue(0);
  void* const stream = stream_of(queue).stream;
  cuda::owned_event first(0, cuda::runtime::event_kind::timed), last(0, cuda::runtime::event_kind::timed);
  const cuda::owned_event untimed(0);
  for (void* const e : {first.get(), last.get(), untimed.get()}) cuda::runtime::record(e, stream);
  EXPECT_GE(cuda::runtime::milliseconds_between(first.get(), last.get()), 0);
  EXPECT_NE(refusal([&] { cuda::runtime::milliseconds_between(first.get(), untimed.get()); }), "");
}

TEST_F(Streams, CountWhatIsDone) {
  cuda::gpu_queue queue(0);
  const auto before = simulated_gpu::count();
  {
    const gpu_array<float> y(queue, 1000);
    fill_on(stream_of(queue), y, 3);
    EXPECT_EQ(y.read().size(), 1000U);
    const auto now = simulated_gpu::count();
    EXPECT_EQ(now.launches, before.launches + 1);
    EXPECT_EQ(now.kernels, before.kernels + 1);
    EXPECT_EQ(now.allocations, before.allocations + 1);
    EXPECT_EQ(now.bytes_now, before.bytes_now + 4000);
    EXPECT_EQ(now.bytes_to_gpu, before.bytes_to_gpu + 4000);
    EXPECT_EQ(now.bytes_to_host, before.bytes_to_host + 4000);
    EXPECT_GT(now.waits, before.waits);
  }
  EXPECT_EQ(simulated_gpu::count().bytes_now, before.bytes_now);
  EXPECT_EQ(simulated_gpu::count().bytes_at_most, before.bytes_now + 4000);
}

TEST_F(Streams, OfSeveralThreadsRunApart) {
  const auto work = [](float value) {
    cuda::gpu_queue queue(0);
    const gpu_array<float> y(queue, 64);
    for (int i = 0; i < 20; ++i) fill_on(std::get<cuda_stream>(queue.where()), y, value);
    EXPECT_THAT(y.read(), Each(value));
  };
  std::thread other(work, 1.0F);
  work(2.0F);
  other.join();
  EXPECT_EQ(kernels(), 40U);
}

TEST_F(Streams, RefuseAWaitWhereNobodyMayWait) {
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, 4);
  const std::vector<float> pageable(4);
  simulated_gpu::set_up({.may_wait = false});
  EXPECT_THROW(queue.finish(), std::logic_error);
  const auto copy = [&] { cuda::runtime::copy(stream_of(queue).stream, y.data(), pageable.data(), 16); };
  EXPECT_THROW(copy(), std::logic_error);
  simulated_gpu::set_up({});
  queue.finish();
}

__global__ void copy_step(const cuda::stream_status* status, std::uint64_t* to) { *to = status->step; }

TEST_F(Streams, LetAStepBeginWhereNobodyMayWait) {
  cuda::gpu_queue queue(0);
  const gpu_array<std::uint64_t> seen(queue, 2);
  queue.finish();
  simulated_gpu::set_up({.when = timing::late, .may_wait = false});
  for (std::uint64_t step = 0; step < 2; ++step) {
    cuda::begin_step(stream_of(queue), 7 + step);
    cuda::launch(stream_of(queue), "copy", 1, 1, 0, copy_step, stream_of(queue).status, seen.data() + step);
  }
  simulated_gpu::set_up({});
  EXPECT_THAT(seen.read(), testing::ElementsAre(7, 8));
}

} // namespace
} // namespace mailgrad
