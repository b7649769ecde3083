#include "simulator_test.hpp"

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <thread>

// When what is queued on a stream runs, what a graph keeps, and what must not be asked while one is captured.
namespace mailgrad {
namespace {

using simulated_gpu::set_up, simulated_gpu::timing;
using testing::AllOf, testing::Each, testing::ElementsAre, testing::ExitedWithCode, testing::HasSubstr,
    testing::IsNan, testing::at_line, testing::gpu_array, testing::stream_of;

class Streams : public testing::simulator_test {
protected:
  static std::uint64_t kernels() { return simulated_gpu::count().kernels; }

  cuda::gpu_queue queue{0};
  void* const stream = stream_of(queue).stream;
};

constexpr unsigned fill_line = __LINE__ + 1;
__global__ void fill_with(float* y, float value) { y[threadIdx.x] = value; }
constexpr unsigned copy_line = __LINE__ + 1;
__global__ void copy_values(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }

void fill_on(const cuda_stream& s, const gpu_array<float>& y, float value) {
  cuda::launch(s, "fill", 1, static_cast<unsigned>(y.size()), 0, fill_with, y.data(), value);
}

TEST_F(Streams, RunAtOnceOrWhenSomebodyWaits) {
  for (const timing when : {timing::eager, timing::late}) {
    set_up({.when = when});
    const gpu_array<float> y(queue, 8);
    fill_on(stream_of(queue), y, 3);
    EXPECT_EQ(kernels(), when == timing::eager ? 1U : 0U);
    queue.finish();
    EXPECT_EQ(kernels(), 1U);
    EXPECT_THAT(y.read(), Each(3.0F));
  }
}

TEST_F(Streams, PassAnEventAfterSomeQuestions) {
  set_up({.when = timing::late, .late_queries = 3});
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
  set_up({.when = timing::drawn});
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
  const gpu_array<float> x(writer, 32), y(reader, 32);
  writer.finish();
  fill_on(stream_of(writer), x, 3);
  const device_event written = writer.record();
  if (waits) reader.wait_for(written);
  cuda::launch(stream_of(reader), "copy", 1, 32, 0, copy_values, x.data(), y.data());
  return y.read();
}

TEST_F(Streams, RunLateShowAForgottenWait) {
  if (simulated_gpu::with_thread_sanitizer) GTEST_SKIP() << "it reports the race, as Races show";
  EXPECT_THAT(copied(false), Each(3.0F)) << "eagerly, nobody sees it";
  set_up({.when = timing::late});
  EXPECT_THAT(copied(true), Each(3.0F));
  EXPECT_THAT(copied(false), Each(IsNan()));
}

TEST_F(Streams, ReadPinnedMemoryWhenACopyRuns) {
  if (simulated_gpu::with_thread_sanitizer) GTEST_SKIP() << "it reports the race";
  set_up({.when = timing::late});
  const gpu_array<float> y(queue, 4);
  cuda::pinned_block pinned(4 * sizeof(float));
  pinned.as<float>()[0] = 1;
  cuda::runtime::copy(stream, y.data(), pinned.as<float>().data(), pinned.bytes());
  pinned.as<float>()[0] = 2; // too early
  EXPECT_EQ(y.read()[0], 2);
}

TEST_F(Streams, ReadPageableMemoryBeforeACopyReturns) {
  set_up({.when = timing::late});
  std::vector<float> x(4, 1);
  const gpu_array<float> y(queue, x);
  x[0] = 2;
  EXPECT_THAT(y.read(), Each(1.0F));
}

TEST_F(Streams, WriteToTheHostBeforeACopyReturns) {
  set_up({.when = timing::late});
  const gpu_array<float> y(queue, 4);
  fill_on(stream_of(queue), y, 3);
  std::vector<float> x(4);
  cuda::runtime::copy(stream, x.data(), y.data(), 4 * sizeof(float));
  EXPECT_THAT(x, Each(3.0F));
}

TEST_F(Streams, RunBeforeMemoryOfTheirGpuIsReleased) {
  set_up({.when = timing::late});
  {
    const gpu_array<float> y(queue, 4);
    fill_on(stream_of(queue), y, 3);
    EXPECT_EQ(kernels(), 0U);
  }
  EXPECT_EQ(kernels(), 1U);
}

TEST_F(Streams, MeasureTheTimeBetweenTimedEvents) {
  cuda::owned_event first(0, cuda::runtime::event_kind::timed), last(0, cuda::runtime::event_kind::timed);
  const cuda::owned_event untimed(0);
  for (void* const e : {first.get(), last.get(), untimed.get()}) cuda::runtime::record(e, stream);
  EXPECT_GE(cuda::runtime::milliseconds_between(first.get(), last.get()), 0);
  EXPECT_NE(refusal([&] { cuda::runtime::milliseconds_between(first.get(), untimed.get()); }), "");
}

TEST_F(Streams, CountWhatIsDone) {
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
    cuda::gpu_queue own(0);
    const gpu_array<float> y(own, 64);
    for (int i = 0; i < 20; ++i) fill_on(stream_of(own), y, value);
    EXPECT_THAT(y.read(), Each(value));
  };
  std::thread other(work, 1.0F);
  work(2.0F);
  other.join();
  EXPECT_EQ(kernels(), 40U);
}

TEST_F(Streams, RefuseAWaitWhereNobodyMayWait) {
  const gpu_array<float> y(queue, 4);
  const std::vector<float> pageable(4);
  set_up({.may_wait = false});
  EXPECT_THROW(queue.finish(), std::logic_error);
  const auto copy = [&] { cuda::runtime::copy(stream, y.data(), pageable.data(), 16); };
  EXPECT_THROW(copy(), std::logic_error);
  set_up({});
  queue.finish();
}

__global__ void copy_step(const cuda::stream_status* status, std::uint64_t* to) { *to = status->step; }

TEST_F(Streams, LetAStepBeginWhereNobodyMayWait) {
  const gpu_array<std::uint64_t> seen(queue, 2);
  queue.finish();
  set_up({.when = timing::late, .may_wait = false});
  for (std::uint64_t step = 0; step < 2; ++step) {
    cuda::begin_step(stream_of(queue), 7 + step);
    cuda::launch(stream_of(queue), "copy", 1, 1, 0, copy_step, stream_of(queue).status, seen.data() + step);
  }
  set_up({});
  EXPECT_THAT(seen.read(), ElementsAre(7, 8));
}

class Graphs : public testing::simulator_test {
protected:
  static constexpr const char* not_permitted = "operation not permitted when stream is capturing";

  void begin_capture() const { cuda::runtime::begin_capture(stream); }
  void* end_capture() const { return cuda::runtime::end_capture(stream); }
  std::string broken() const {
    return refusal([&] { end_capture(); });
  }

  cuda::gpu_queue queue{0};
  void* const stream = stream_of(queue).stream;
};

__global__ void add_to(float* y, float value) { y[threadIdx.x] += value; }

TEST_F(Graphs, ReplayWhatWasQueuedWithItsArguments) {
  for (const auto when : {timing::eager, timing::late}) {
    set_up({.when = when});
    const gpu_array<float> y(queue, std::vector<float>(8, 1));
    float value = 2;
    begin_capture();
    cuda::launch(stream_of(queue), "add", 1, 8, 0, add_to, y.data(), value);
    cuda::launch(stream_of(queue), "add", 1, 8, 0, add_to, y.data(), 10.0F);
    void* const graph = end_capture();
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
  begin_capture();
  EXPECT_THAT(refusal([&] { cuda::runtime::synchronise(stream); }), HasSubstr(not_permitted));
  EXPECT_THAT(broken(), HasSubstr("previous error during capture"));
  cuda::runtime::synchronise(stream); // it is a stream as any other once more
}

TEST_F(Graphs, AreBrokenByAnAllocation) {
  begin_capture();
  EXPECT_THAT(refusal([&] { cuda::runtime::allocate(0, 64); }), HasSubstr(not_permitted));
  EXPECT_THAT(broken(), HasSubstr("cudaMalloc"));
}

TEST_F(Graphs, AreBrokenByAReleaseThatLosesItsMemory) {
  std::optional<memory> block = queue.allocate(64);
  const std::size_t before = simulated_gpu::count().bytes_now;
  begin_capture();
  block.reset();
  EXPECT_THAT(broken(), HasSubstr("cudaFree"));
  EXPECT_EQ(simulated_gpu::count().bytes_now, before);
  queue.finish(); // it is a stream as any other once more
}

TEST_F(Graphs, AreBrokenByAReleaseOfPinnedMemory) {
  std::optional<cuda::pinned_block> pinned(16);
  begin_capture();
  pinned.reset();
  EXPECT_THAT(broken(), HasSubstr("cudaFreeHost"));
}

TEST_F(Graphs, OfAnotherThreadLeaveAReleaseAlone) {
  std::optional<memory> block = queue.allocate(64);
  const std::size_t before = simulated_gpu::count().bytes_now;
  begin_capture();
  std::thread([&] { block.reset(); }).join();
  EXPECT_EQ(simulated_gpu::count().bytes_now, before - 64);
  cuda::runtime::destroy_graph(end_capture());
}

TEST_F(Graphs, AreBrokenByACopyOfPageableMemory) {
  const gpu_array<float> y(queue, 4);
  cuda::pinned_block pinned(16);
  std::array<float, 4> pageable{};
  begin_capture();
  cuda::runtime::copy(stream, y.data(), pinned.as<float>().data(), 16);
  EXPECT_THAT(refusal([&] { cuda::runtime::copy(stream, y.data(), pageable.data(), 16); }),
              HasSubstr(not_permitted));
  EXPECT_THAT(broken(), HasSubstr("pageable"));
}

TEST_F(Graphs, DoNotWaitForWorkOutside) {
  cuda::gpu_queue other(0);
  const device_event outside = other.record();
  begin_capture();
  EXPECT_THAT(refusal([&] { queue.wait_for(outside); }), HasSubstr("dependency created on uncaptured work"));
  EXPECT_NE(broken(), "");
}

TEST_F(Graphs, KeepEventsThatNobodyMayAsk) {
  cuda::gpu_queue other(0);
  begin_capture();
  const device_event inside = queue.record();
  queue.wait_for(inside);
  EXPECT_THAT(refusal([&] { static_cast<void>(inside.passed()); }), HasSubstr("capturing stream"));
  EXPECT_THAT(refusal([&] { other.wait_for(inside); }), HasSubstr("capturing stream"));
  cuda::runtime::destroy_graph(end_capture());
}

/// ThreadSanitizer takes each thread of a GPU, and each stream, for a thread of its own. It finds what no
/// schedule shows.
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
  cuda::launch(stream_of(queue), "rotate", 1, 64, 64 * sizeof(float), kernel, y.data());
  queue.finish();
  std::exit(0);
}

TEST_F(Races, AreNoneInARightKernel) {
  EXPECT_EXIT(run_block(rotate_twice<true, true>), ExitedWithCode(0), "");
}

TEST_F(Races, OfAMissingBarrierAreFound) {
  EXPECT_EXIT(run_block(rotate_twice<false, true>), ExitedWithCode(found),
              AllOf(HasSubstr("data race"), HasSubstr(at_line(read_line)), HasSubstr(at_line(write_line))));
}

TEST_F(Races, OfAMissingBarrierBeforeReuseAreFound) {
  EXPECT_EXIT(run_block(rotate_twice<true, false>), ExitedWithCode(found),
              AllOf(HasSubstr("data race"), HasSubstr(at_line(write_line))));
}

__global__ void one_cell(float* y) {
  if (threadIdx.x == 0) y[0] = static_cast<float>(blockIdx.x);
}

void run_blocks() {
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, 1);
  cuda::launch(stream_of(queue), "cell", 2, 32, 0, one_cell, y.data());
  std::exit(0);
}

TEST_F(Races, BetweenBlocksAreFound) {
  EXPECT_EXIT(run_blocks(), ExitedWithCode(found), AllOf(HasSubstr("data race"), HasSubstr("one_cell")));
}

void copy_between_streams(bool waits) {
  if (copied(waits)[0] != 3) std::exit(1); // eagerly, the number is right
  std::exit(0);
}

TEST_F(Races, AreNoneBetweenStreamsThatWait) {
  EXPECT_EXIT(copy_between_streams(true), ExitedWithCode(0), "");
}

TEST_F(Races, OfAForgottenWaitAreFoundThoughTheNumbersAreRight) {
  EXPECT_EXIT(copy_between_streams(false), ExitedWithCode(found),
              AllOf(HasSubstr("data race"), HasSubstr(at_line(fill_line)), HasSubstr(at_line(copy_line))));
}

void overwrite_pinned(bool waits) {
  cuda::gpu_queue queue(0);
  const gpu_array<float> y(queue, 4);
  cuda::pinned_block pinned(16);
  cuda::runtime::copy(stream_of(queue).stream, y.data(), pinned.as<float>().data(), 16);
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
