#include <mailgrad/engine/account/trace_track.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;

/// The other clock is an hour behind. The message is 2 ms under way, its answer 4 ms.
TEST(ClockBounds, PlaceTheOtherClockWithinHalfARoundTrip) {
  clock_bounds clock;
  clock.add(10s, 1h + 10s + 2ms);
  clock.answer(10s + 6ms);
  const clock_offset found = clock.offsets().at(0);
  EXPECT_EQ(found.value, 1h - 1ms) << "the ways are taken for equally long";
  EXPECT_EQ(found.uncertainty, 3ms) << "but need not be";
}

TEST(ClockBounds, KnowNothingCertainWithoutAnAnswer) {
  clock_bounds clock;
  clock.add(10s, 1h + 10s + 2ms);
  const clock_offset found = clock.offsets().at(0);
  EXPECT_EQ(found.value, 1h + 2ms) << "it came when it was sent, or later";
  EXPECT_FALSE(found.uncertainty);
  EXPECT_TRUE(clock_bounds().offsets().empty());
}

/// The message before was fast on its way there, the one behind had a fast answer.
TEST(ClockBounds, TakeTheBestOfAllMessages) {
  clock_bounds clock;
  clock.add(10s, 1h + 10s + 100us);
  clock.answer(10s + 80ms);
  clock.add(11s, 1h + 11s + 50ms);
  clock.answer(11s + 200ms);
  clock.add(12s, 1h + 12s + 30ms);
  clock.answer(12s + 30ms + 300us);
  const clock_offset found = clock.offsets().at(1);
  EXPECT_LE(found.value - *found.uncertainty, 1h);
  EXPECT_GE(found.value + *found.uncertainty, 1h);
  const auto about_300_us = ::testing::AllOf(::testing::Ge(300us), ::testing::Le(302us));
  EXPECT_THAT(*found.uncertainty, about_300_us) << "(100 us + 300 us) / 2, and 100 us of drift from each";
  EXPECT_THAT(*clock.offsets().at(0).uncertainty, about_300_us) << "200 us from the last one";
}

TEST(ClockBounds, TakeTheClockOfTheSameMachineAsItIs) {
  clock_bounds clock;
  clock.add(10s, 10s + 2ms);
  clock.answer(10s + 3ms);
  const clock_offset found = clock.offsets().at(0);
  EXPECT_EQ(found.value, 0ms) << "0 is within the bounds";
  EXPECT_EQ(found.uncertainty, 2ms);
}

/// The other machine slept for an hour between both, while its clock stood still.
TEST(ClockBounds, JudgeEachMessageByItselfIfTheyContradict) {
  clock_bounds clock;
  clock.add(10s, 2h + 10s + 2ms);
  clock.answer(10s + 4ms);
  clock.add(11s, 3h + 11s + 2ms);
  clock.answer(11s + 4ms);
  EXPECT_EQ(clock.offsets().at(0).value, 2h);
  EXPECT_EQ(clock.offsets().at(1).value, 3h);
  EXPECT_EQ(clock.offsets().at(1).uncertainty, 2ms);
}

TEST(ClockBounds, TrustNoAnswerThatWasThereBeforeTheMessage) {
  clock_bounds clock;
  clock.answer(5s);
  clock.add(10s, 1h);
  clock.answer(9s);
  EXPECT_FALSE(clock.offsets().at(0).uncertainty);
  clock.answer(11s);
  clock.answer(13s);
  EXPECT_EQ(clock.offsets().at(0).uncertainty, 500ms) << "an answer to a later one says less";
}

} // namespace
} // namespace mailgrad
