#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/kernels/softmax.hpp>
#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <stdexcept>

namespace mailgrad {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::expect_refused;
using testing::gpu_array;
using floats = std::vector<float>;

class GpuQueue : public testing::gpu_test {};

TEST_F(GpuQueue, AllocatesZeroedMemoryOfItsGpu) {
  const memory m = queue().allocate(5 * sizeof(float));
  EXPECT_FALSE(m.is_on_host());
  floats seen(5, -1);
  queue().read(m, std::as_writable_bytes(std::span(seen)));
  EXPECT_THAT(seen, Each(0.0F));
}

TEST_F(GpuQueue, WritesWhatMayChangeAtOnce) {
  memory m = queue().allocate(1000 * sizeof(float));
  floats values(1000, 3), seen(1000);
  queue().write(values, m);
  std::ranges::fill(values, -1.0F);
  queue().read(m, std::as_writable_bytes(std::span(seen)));
  EXPECT_THAT(seen, Each(3.0F));
}

TEST_F(GpuQueue, WritesPinnedMemoryThatMayChangeAtOnce) {
  constexpr std::size_t n = 1 << 20;
  memory m = queue().allocate(n * sizeof(float));
  cuda::pinned_block pinned(n * sizeof(float));
  std::ranges::fill(pinned.as<float>(), 3.0F);
  queue().write(pinned.as<float>(), m);
  std::ranges::fill(pinned.as<float>(), -1.0F);
  floats seen(n);
  queue().read(m, std::as_writable_bytes(std::span(seen)));
  EXPECT_THAT(seen, Each(3.0F));
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
  floats three(3);
  expect_refused({
      {"write", [&] { queue().write(three, m); }, "write: 3 against 2"},
      {"read", [&] { queue().read(m, std::as_writable_bytes(std::span(three))); }, "read: 12 against 8"},
      {"memory of the host", [&] { memory(block(8)).on<float>(gpu()); }, "memory of the host"},
      {"a GPU's memory", [&] { m.on_host<float>(); }, "copy it there first"},
  });
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
  expect_refused({{"an event of the host", [&] { queue().wait_for(device_event(std::make_shared<later>())); },
                   "a GPU waits only for an event of a GPU"}});
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
  cuda_stream s = on_gpu();
  s.operation = 11;
  EXPECT_FALSE(queue().take_fault());
  cross_entropy(s, logits.data(), labels.data(), loss.data(), probabilities.data(), rows, 2);
  s.operation = 12;
  cross_entropy(s, logits.data(), labels.data() + 2, loss.data(), probabilities.data(), rows - 2, 2);
  const auto fault = queue().take_fault();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->operation(), 11U);
  EXPECT_EQ(fault->limit(), 2U);
  EXPECT_EQ(fault->found(), 7);
  EXPECT_FALSE(queue().take_fault());
}

TEST(GpuFaults, AreRaisedInTheWordsOfTheHost) {
  using cuda::fault_kind, cuda::fault_word;
  const auto raised = [](fault_kind kind) {
    return [kind] {
      cuda::raise({fault_word::cause_of(kind, 5), fault_word::first_of(9, 7), fault_word::bound_of(9, 4)});
    };
  };
  cuda::raise({});
  expect_refused({{"label", raised(fault_kind::label), "label 7, but the logits have 4 classes"},
                  {"row", raised(fault_kind::row), "row 7 of a table of 4 rows"},
                  {"another", raised(static_cast<fault_kind>(9)), "fault 9"}});
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

} // namespace
} // namespace mailgrad
