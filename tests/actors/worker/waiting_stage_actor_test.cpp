#include <mailgrad/tests/actors/worker/stage_actor_fixture.hpp>
#include <mailgrad/tests/engine/ticking_time.hpp>

#include <gmock/gmock.h>

#include <chrono>
#include <utility>
#include <vector>

// How far a stage is ahead of those that read its values, and what it says of its time.

namespace mailgrad {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using testing::StageActor;

/// The test is the second stage, which gives credit only when it wants to.
TEST_F(StageActor, IsAheadOfItsReaderByNoMoreThanItsCredit) {
  for (const std::size_t credits : {1U, 2U}) {
    stages_.clear();
    begin(credits);
    auto reader = listen<values_computed>();
    std::vector<values_computed>& sent = reader.heard<values_computed>();
    stages_[1] = reader.actor();
    ask<step_computed>(stages_[0], compute_step{work_of(7, {2, 2, 2, 2}), nullptr});
    EXPECT_THAT(sent, SizeIs(credits));
    tell(stages_[0], values_used{6, 0, 1});
    EXPECT_THAT(sent, SizeIs(credits)) << "that was credit of another step";
    tell(stages_[0], values_used{7, 0, 1});
    ASSERT_THAT(sent, SizeIs(credits + 1));
    for (std::size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(sent[i].step, 7U);
      EXPECT_EQ(sent[i].micro_batch, i);
      EXPECT_EQ(sent[i].segment, 0U);
    }
  }
}

/// The test overhears what the second stage tells the first.
TEST_F(StageActor, GivesCreditForEachMicroBatchThatItHasRead) {
  begin();
  auto first = listen<values_computed, values_used>();
  const auto work = work_of(7, {3, 3});
  const auto overheard = std::make_shared<step_work>(*work);
  overheard->stages[0] = first.actor();
  ask<step_computed>(stages_[0], compute_step{work, nullptr});
  auto second = ask<step_computed>(stages_[1], compute_step{overheard, nullptr});
  ASSERT_THAT(first.heard<values_used>(), SizeIs(2));
  for (const values_used& x : first.heard<values_used>()) {
    EXPECT_EQ(x.step, 7U);
    EXPECT_EQ(x.segment, 0U);
    EXPECT_EQ(x.reader, 1U);
  }
  EXPECT_THAT(first.heard<values_computed>(), SizeIs(2)) << "of the backward pass";
  ASSERT_THAT(second.heard<step_computed>(), SizeIs(1));
  EXPECT_EQ(second.heard<step_computed>()[0].stage, 1U);
  EXPECT_FALSE(second.heard<step_computed>()[0].sum.into) << "the worker has the gradient";
}

/// On a clock that goes on by a microsecond whenever it is read.
TEST_F(StageActor, TellsItsTimelineWhatItComputedAndWaitedFor) {
  clock_ = std::make_shared<testing::ticking_time>();
  begin(1);
  const auto work = work_of(7, {3, 3});
  const auto track = std::make_shared<trace_track>("first", 20, instant{0});
  auto first = ask<step_computed>(stages_[0], compute_step{work, track});
  ask<step_computed>(stages_[1], compute_step{work, nullptr});
  std::vector<std::pair<std::uint32_t, std::uint64_t>> computed;
  std::vector<trace_kind> waits;
  for (const trace_event& e : track->events()) {
    if (e.what != trace_kind::compute_part) {
      waits.push_back(e.what);
      continue;
    }
    computed.emplace_back(e.peer, e.version);
    EXPECT_EQ(e.step, 7U);
    EXPECT_EQ(e.end - e.begin, std::chrono::microseconds{1});
  }
  ASSERT_THAT(computed, SizeIs(4)) << "forward and backward, of two micro-batches";
  EXPECT_EQ(computed.front(), (std::pair<std::uint32_t, std::uint64_t>{0, 0}));
  EXPECT_EQ(computed.back().first, 1U);
  EXPECT_GT(computed.back().second, 0U) << "the segment of the backward pass";
  ASSERT_THAT(waits, Not(IsEmpty()));
  EXPECT_EQ(waits.front(), trace_kind::next_step);
  EXPECT_THAT(waits, Contains(trace_kind::credit)) << "the second stage had not begun";
  ASSERT_THAT(first.heard<step_computed>(), SizeIs(1));
  EXPECT_EQ(first.heard<step_computed>()[0].busy, 4000);
  EXPECT_EQ(first.heard<step_computed>()[0].trace, track);
}

TEST_F(StageActor, CountsTheTimeOfOneStep) {
  clock_ = std::make_shared<testing::ticking_time>();
  begin();
  for (const std::uint64_t step : {1U, 2U}) {
    const auto work = work_of(step, {3, 3});
    auto first = ask<step_computed>(stages_[0], compute_step{work, nullptr});
    ask<step_computed>(stages_[1], compute_step{work, nullptr});
    ASSERT_THAT(first.heard<step_computed>(), SizeIs(1));
    EXPECT_EQ(first.heard<step_computed>()[0].busy, 4000);
  }
}

} // namespace
} // namespace mailgrad
