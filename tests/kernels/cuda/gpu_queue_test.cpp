#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/kernels/cuda/kept_graphs.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/kernels/softmax.hpp>
#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <array>
#include <stdexcept>

namespace mailgrad {
namespace {

using cuda::kept_graphs;
using testing::Each, testing::expect_refused, testing::gpu_array;
using floats = std::vector<float>;

class GpuQueue : public testing::gpu_test {
protected:
  floats read(const memory& m, std::size_t n) {
    floats values(n, -1);
    queue().read(m, std::as_writable_bytes(std::span(values)));
    return values;
  }
};

TEST_F(GpuQueue, AllocatesZeroedMemoryOfItsGpu) {
  const memory m = queue().allocate(5 * sizeof(float));
  EXPECT_FALSE(m.is_on_host());
  EXPECT_THAT(read(m, 5), Each(0.0F));
}

TEST_F(GpuQueue, WritesWhatMayChangeAtOnce) {
  memory m = queue().allocate(1000 * sizeof(float));
  floats values(1000, 3);
  queue().write(values, m);
  std::ranges::fill(values, -1.0F);
  EXPECT_THAT(read(m, 1000), Each(3.0F));
}

TEST_F(GpuQueue, WritesPinnedMemoryThatMayChangeAtOnce) {
  constexpr std::size_t n = 1 << 20;
  memory m = queue().allocate(n * sizeof(float));
  cuda::pinned_block pinned(n * sizeof(float));
  std::ranges::fill(pinned.as<float>(), 3.0F);
  queue().write(pinned.as<float>(), m);
  std::ranges::fill(pinned.as<float>(), -1.0F);
  EXPECT_THAT(read(m, n), Each(3.0F));
}

TEST_F(GpuQueue, LendsTheSameMemoryAgainAndGivesBackWhatNobodyWants) {
  const auto address = [](const memory& m) { return m.on_host<std::byte>().data(); };
  std::vector<memory> three;
  for (int i = 0; i < 3; ++i) three.push_back(queue().lend_on_host(64));
  const std::vector<const std::byte*> were{address(three[0]), address(three[1]), address(three[2])};
  three.clear();
  for (int call = 0; call < 100; ++call) { // as often as two are wanted at once
    const memory one = queue().lend_on_host(64), two = queue().lend_on_host(64);
    ASSERT_THAT(were, ::testing::IsSupersetOf({address(one), address(two)}));
  }
  EXPECT_EQ(queue().kept_on_host(), 2U);
}

TEST_F(GpuQueue, CapturesNothingWhenQueueingFails) {
  const auto x = unwritten<float>(4);
  const auto fails = [&] {
    const cuda::captured_graph graph(on_gpu().stream, [&] {
      fill(gpu(), 1, x.span());
      throw std::runtime_error("not this time");
    });
  };
  EXPECT_THROW(fails(), std::runtime_error);
  fill(gpu(), 2, x.span());
  EXPECT_EQ(x.read(), floats(4, 2)) << "the stream is used again";
}

TEST_F(GpuQueue, RefusesWhatDoesNotFit) {
  memory m = queue().allocate(8);
  const floats three(3);
  expect_refused("write", "write: 3 against 2", [&] { queue().write(three, m); });
  expect_refused("read", "read: 12 against 8", [&] { read(m, 3); });
  expect_refused("memory of the host", "memory of the host", [&] { memory(block(8)).on<float>(gpu()); });
  expect_refused("a GPU's memory", "copy it there first", [&] { m.on_host<float>(); });
}

TEST_F(GpuQueue, WaitsForAnEventOfAnotherQueue) {
  constexpr std::size_t n = 1 << 14;
  cuda::gpu_queue other(0);
  const auto x = unwritten<float>(n);
  const gpu_array<float> y(other, n);
  queue().finish();
  other.finish();
  for (int i = 1; i <= 6; ++i) {
    fill(gpu(), static_cast<float>(i), x.span());
    const device_event filled = queue().record();
    other.wait_for(filled);
    copy_bytes(other.where(), y.data(), x.data(), n * sizeof(float));
    const device_event copied = other.record();
    queue().wait_for(copied); // before the next turn fills it anew
    EXPECT_THAT(y.read(), Each(static_cast<float>(i)));
    EXPECT_TRUE(filled.passed());
    EXPECT_TRUE(copied.passed());
  }
}

TEST_F(GpuQueue, WaitsForNoEventOfTheHost) {
  class later final : public device_event::driver_event {
    bool passed() const override { return false; }
  };
  expect_refused("an event of the host", "a GPU waits only for an event of a GPU",
                 [&] { queue().wait_for(device_event(std::make_shared<later>())); });
  queue().wait_for(device_event{}); // which has passed
}

TEST_F(GpuQueue, TakesTheFirstFaultOnce) {
  constexpr std::size_t rows = 3000; // of several blocks
  const auto logits = array(floats(rows * 2));
  std::vector<std::int32_t> wrong(rows, -2);
  wrong[0] = 1;
  wrong[1] = 7;
  const auto labels = array(wrong);
  const auto loss = unwritten<float>(1), probabilities = unwritten<float>(rows * 2);
  EXPECT_FALSE(queue().take_fault());
  cross_entropy(gpu_for_operation(11), logits.data(), labels.data(), loss.data(), probabilities.data(), rows,
                2);
  cross_entropy(gpu_for_operation(12), logits.data(), labels.data() + 2, loss.data(), probabilities.data(),
                rows - 2, 2);
  const auto fault = queue().take_fault();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->operation(), 11U);
  EXPECT_EQ(fault->limit(), 2U);
  EXPECT_EQ(fault->found(), 7);
  EXPECT_FALSE(queue().take_fault());
}

TEST(GpuFaults, AreRaisedInTheWordsOfTheHost) {
  using cuda::fault_kind, cuda::fault_word;
  const auto expect_raised = [](fault_kind kind, const char* words) {
    const fault_word found{fault_word::cause_of(kind, 5), fault_word::first_of(9, 7),
                           fault_word::bound_of(9, 4)};
    expect_refused(words, words, [&] { cuda::raise(found); });
  };
  cuda::raise({});
  expect_raised(fault_kind::label, "label 7, but the logits have 4 classes");
  expect_raised(fault_kind::row, "row 7 of a table of 4 rows");
  expect_raised(static_cast<fault_kind>(9), "fault 9");
}

TEST_F(GpuQueue, SaysHowMuchMemoryWasAskedForAndIsFree) {
  constexpr std::size_t too_much = std::size_t{1} << 50;
  try {
    queue().allocate(too_much);
    FAIL() << "the GPU has a pebibyte";
  } catch (const device_error& e) {
    EXPECT_THAT(e.what(),
                ::testing::MatchesRegex(
                    "cuda:0: out of memory: 1024.0 TiB asked for, [0-9.]+ .iB of [0-9.]+ .iB free"));
  }
  EXPECT_EQ(array(floats{1, 2}).read(), (floats{1, 2})) << "the queue goes on";
}

/// A graph runs without being queued, and writes what was written when it was captured.
class KeptGraphs : public testing::gpu_test {
protected:
  struct seen {
    float value;
    bool queued;
    friend bool operator==(const seen&, const seen&) = default;
  };

  /// Runs work that writes the next number, by launches or as a graph.
  seen run(kept_graphs& graphs, const void* which) {
    if (!values_) values_.emplace(queue(), floats(4, -1.0F));
    bool queued = false;
    ++value_;
    graphs.run(on_gpu().stream, {which, nullptr}, [&] {
      queued = true;
      fill(gpu(), value_, values_->span());
    });
    const floats found = values_->read();
    EXPECT_THAT(found, Each(found.front()));
    return {found.front(), queued};
  }
  seen run(kept_graphs& graphs) { return run(graphs, &graphs); }

private:
  std::optional<gpu_array<float>> values_;
  float value_ = 0;
};

TEST_F(KeptGraphs, CaptureWhatComesTwice) {
  kept_graphs graphs;
  EXPECT_EQ(run(graphs), (seen{1, true})) << "by launches";
  EXPECT_EQ(run(graphs), (seen{2, true})) << "it is captured, and runs";
  EXPECT_EQ(run(graphs), (seen{2, false}));
  EXPECT_EQ(run(graphs), (seen{2, false}));
}

TEST_F(KeptGraphs, CountWhatCameAsGraphsAndByLaunches) {
  kept_graphs graphs;
  const auto before = cuda::count_queued_steps();
  for (int i = 0; i < 5; ++i) run(graphs);
  const auto after = cuda::count_queued_steps();
  EXPECT_EQ(after.launches - before.launches, 1U);
  EXPECT_EQ(after.graphs - before.graphs, 4U);
}

TEST_F(KeptGraphs, KeepThoseThatCameLast) {
  kept_graphs graphs(2);
  const std::array<char, 3> keys{};
  const auto is_kept = [&](std::size_t k) { return !run(graphs, &keys[k]).queued; };
  for (const std::size_t k : {0, 0, 1, 1}) is_kept(k);
  EXPECT_TRUE(is_kept(0));
  EXPECT_FALSE(is_kept(2)) << "the first time";
  EXPECT_TRUE(is_kept(0));
  EXPECT_FALSE(is_kept(1)) << "it was forgotten";
  EXPECT_FALSE(is_kept(1));
  EXPECT_TRUE(is_kept(1));
}

TEST_F(KeptGraphs, KeepNoneIfNoneIsWanted) {
  kept_graphs graphs(0);
  for (float i = 1; i < 5; ++i) EXPECT_EQ(run(graphs), (seen{i, true}));
}

TEST_F(KeptGraphs, QueueByLaunchesWhatCannotBeCaptured) {
  kept_graphs graphs;
  const auto values = array(floats(4));
  std::vector<memory> kept;
  for (float i = 1; i < 5; ++i) {
    graphs.run(on_gpu().stream, {&graphs, nullptr}, [&] {
      kept.push_back(queue().allocate(64)); // which no capture allows
      fill(gpu(), i, values.span());
    });
    EXPECT_THAT(values.read(), Each(i));
  }
}

TEST_F(KeptGraphs, PassOnWhatTheWorkThrows) {
  kept_graphs graphs;
  const auto fails = [] { throw std::runtime_error("not this time"); };
  for (int i = 0; i < 3; ++i)
    EXPECT_THROW(graphs.run(on_gpu().stream, {&graphs, nullptr}, fails), std::runtime_error) << i;
  EXPECT_EQ(run(graphs), (seen{1, true})) << "the stream takes work again";
}

TEST(GpuRuntime, ForgetsTheErrorOfAFunctionThatCannotThrow) {
  MAILGRAD_NEEDS_GPU(); // without a driver, every call of CUDA fails
  const auto expect_forgotten = [](const char* what) {
    EXPECT_NO_THROW(cuda::runtime::check_launch("a kernel"))
        << "it is told of what " << what << " left behind";
  };
  cuda::runtime::release(99, nullptr);
  expect_forgotten("release()");
  cuda::runtime::release_pinned(nullptr);
  expect_forgotten("release_pinned()");
  cuda::runtime::destroy_stream(99, nullptr);
  expect_forgotten("destroy_stream()");
  cuda::runtime::destroy_event(nullptr);
  expect_forgotten("destroy_event()");
  cuda::runtime::destroy_graph(nullptr);
  expect_forgotten("destroy_graph()");
}

} // namespace
} // namespace mailgrad
