#include "simulator_test.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

// What may go wrong with a card that is used as it should be.
namespace mailgrad {
namespace {

using simulated_card::machine;
using simulated_card::set_up;
using testing::card_array;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class Faults : public testing::simulator_test {};

__global__ void touch(float* y) { y[threadIdx.x] = 1; }

TEST_F(Faults, LeaveACardUsableAfterItsMemoryRanOut) {
  cuda::card_lane lane(0);
  set_up({.fail = {.out_of_memory_at = 2}, .memory_bytes = std::size_t{3} << 30});
  const card_array<float> first(lane, 4);
  EXPECT_THAT(refusal([&] { const card_array<float> second(lane, 4); }),
              testing::MatchesRegex("cuda:0: out of memory: 16 bytes asked for, .* of 3.0 GiB free"));
  const card_array<float> third(lane, 4);
}

TEST_F(Faults, ComeOfMoreMemoryThanTheCardHas) {
  cuda::card_lane lane(0);
  set_up({.memory_bytes = std::size_t{4} << 20});
  EXPECT_THAT(refusal([&] { const card_array<float> y(lane, std::size_t{1} << 20); }),
              HasSubstr("out of memory"));
}

/// The driver takes memory for them as well.
TEST_F(Faults, OfMemoryForStreamsMarksAndGraphsNameTheCardAndWhatFor) {
  set_up({.fail = {.driver_out_of_memory_at = 1}, .cards = 2});
  EXPECT_EQ(refusal([] { const cuda::card_lane lane(1); }),
            "cuda:1: out of memory: cudaStreamCreateWithPriority, for a stream of work");
  cuda::card_lane lane(0);
  const auto lacking = [&](const auto& call) {
    set_up({.fail = {.driver_out_of_memory_at = 1}});
    EXPECT_THROW(call(), out_of_memory);
    set_up({.fail = {.driver_out_of_memory_at = 1}});
    return refusal(call);
  };
  EXPECT_EQ(lacking([&] { static_cast<void>(lane.record()); }),
            "cuda:0: out of memory: cudaEventCreateWithFlags, for a mark in a stream");
  EXPECT_EQ(lacking([&] { const cuda::captured_graph graph(stream_of(lane).stream, [] {}); }),
            "cuda:0: out of memory: cudaGraphInstantiate, for the graph of a step");
  EXPECT_EQ(refusal([&] { static_cast<void>(lane.record()); }), "") << "the lane works on";
}

TEST_F(Faults, OfALaunchStayUntilTheEnd) {
  for (const auto when : {simulated_card::timing::eager, simulated_card::timing::late}) {
    set_up({.when = when, .fail = {.launch_error_at = 2}});
    cuda::card_lane lane(0);
    const card_array<float> y(lane, 4);
    const auto run = [&] {
      cuda::launch(stream_of(lane), "touch", 1, 4, 0, touch, y.data());
      lane.finish();
    };
    EXPECT_EQ(refusal(run), "");
    EXPECT_THAT(refusal(run), HasSubstr("an illegal memory access was encountered"));
    EXPECT_THAT(refusal(run), HasSubstr("an illegal memory access was encountered"));
    EXPECT_THAT(refusal([&] { lane.allocate(4); }), HasSubstr("an illegal memory access was encountered"));
  }
}

TEST_F(Faults, OfALostCardFailEveryCall) {
  cuda::card_lane lane(0);
  set_up({.fail = {.lost_card_at = 2}});
  lane.finish();
  EXPECT_THAT(refusal([&] { lane.finish(); }), HasSubstr("the card is lost"));
  EXPECT_THAT(refusal([&] { lane.record(); }), HasSubstr("the card is lost"));
}

TEST_F(Faults, LeaveAHostUsableAfterPinnedMemoryRanOut) {
  cuda::card_lane lane(0);
  set_up({.fail = {.pinned_out_of_memory_at = 2}});
  const cuda::pinned_block first(16);
  EXPECT_EQ(refusal([] { const cuda::pinned_block second(16); }),
            "pinned memory of the host: out of memory: 16 bytes asked for");
  const cuda::pinned_block third(16);
}

/// CUDA would wake the first card for such a call.
TEST_F(Faults, AreCallsOfAThreadForWhichNoCardIsCurrent) {
  const cuda::owned_event event(0);
  std::future<std::string> asked = std::async(
      std::launch::async, [&] { return refusal([&] { cuda::runtime::has_passed(event.get()); }); });
  EXPECT_THAT(asked.get(), HasSubstr("no card is current on this thread"));
}

TEST_F(Faults, ComeOfNothingThatALaneDoesOnAnyThread) {
  set_up({.cards = 2});
  cuda::card_lane lane(1);
  const memory there = lane.allocate(16);
  memory here = lane.lend_on_host(16);
  const mark before = lane.record();
  const auto on_new_thread = [](const auto& call) {
    return std::async(std::launch::async, [&] { return refusal(call); }).get();
  };
  EXPECT_EQ(on_new_thread([&] { static_cast<void>(before.passed()); }), "");
  EXPECT_EQ(on_new_thread([&] { lane.wait_for(before); }), "");
  EXPECT_EQ(on_new_thread([&] { static_cast<void>(lane.record()); }), "");
  EXPECT_EQ(on_new_thread([&] { lane.copy_to_host(there, 0, here); }), "");
  EXPECT_EQ(on_new_thread([&] { lane.finish(); }), "");
  EXPECT_EQ(on_new_thread([&] { lane.take_fault(); }), "");
}

TEST_F(Faults, OfTheMachineAreToldInOneLine) {
  set_up({.has = machine::without_driver});
  EXPECT_THAT(cuda::runtime::find_cards().why_none, HasSubstr("no NVIDIA driver could be opened"));
  set_up({.has = machine::with_old_driver});
  EXPECT_THAT(cuda::runtime::find_cards().why_none, HasSubstr("the driver is for CUDA 11.4"));
  set_up({.has = machine::without_card});
  EXPECT_THAT(cuda::runtime::find_cards().why_none, HasSubstr("finds no card"));
  EXPECT_THAT(cuda::runtime::find_cards().cards, IsEmpty());
  EXPECT_NE(refusal([] { const cuda::card_lane lane(0); }), "");
}

TEST_F(Faults, OfACardThatTellsNothingHideNoOther) {
  set_up({.fail = {.silent_card = 1}, .cards = 3});
  const auto found = cuda::runtime::find_cards();
  ASSERT_THAT(found.cards, SizeIs(3));
  EXPECT_EQ(found.cards[1].why_unknown, "unknown error");
  for (const std::size_t number : {0U, 2U}) {
    EXPECT_EQ(found.cards[number].name, "simulated card");
    EXPECT_EQ(found.cards[number].why_unknown, "");
  }
}

TEST_F(Faults, AreOfOneCardAmongSeveral) {
  set_up({.fail = {.launch_error_at = 1}, .cards = 2});
  EXPECT_THAT(cuda::runtime::find_cards().cards, SizeIs(2));
  cuda::card_lane first(0), second(1);
  const card_array<float> x(first, 4), y(second, 4);
  EXPECT_NE(refusal([&] { cuda::launch(stream_of(first), "touch", 1, 4, 0, touch, x.data()); }), "");
  EXPECT_EQ(refusal([&] { cuda::launch(stream_of(second), "touch", 1, 4, 0, touch, y.data()); }), "");
  EXPECT_THAT(refusal([&] { cuda::launch(stream_of(second), "touch", 1, 4, 0, touch, x.data()); }),
              HasSubstr("an address of cuda:0"));
}

} // namespace
} // namespace mailgrad
