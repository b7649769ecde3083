#include <mailgrad/tests/support/played_actor.hpp>

#include <mailgrad/actors/protocol/notices.hpp>
#include <mailgrad/tests/actors/worker/played_worker.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

class GapNotices : public testing::PlayedActorTest {
protected:
  testing::listener<staleness_observed> tracker_ = listen<staleness_observed>();
  gap_notices gaps_{self_, tracker_.actor(), *time_};
};

TEST_F(GapNotices, TellsTheTrackerOfManyGradientsAtOnce) {
  act([&] {
    for (std::uint64_t i = 1; i < gap_notices::per_notice; ++i) gaps_.count(2, time_->now());
  });
  EXPECT_THAT(tracker_.heard<staleness_observed>(), IsEmpty());
  act([&] { gaps_.count(5, time_->now()); });
  ASSERT_THAT(tracker_.heard<staleness_observed>(), SizeIs(1));
  EXPECT_THAT(tracker_.heard<staleness_observed>()[0].gaps.buckets(),
              ElementsAre(Pair(2, gap_notices::per_notice - 1), Pair(5, 1)));
  act([&] { gaps_.flush(); });
  EXPECT_THAT(tracker_.heard<staleness_observed>(), SizeIs(1)) << "there is nothing new";
}

TEST_F(GapNotices, TellsTheTrackerAsOftenAsThePaceSays) {
  gap_notices often(self_, tracker_.actor(), *time_, {.steps = 2});
  time_->advance(1ms);
  act([&] { often.count(2, time_->now()); });
  EXPECT_THAT(tracker_.heard<staleness_observed>(), IsEmpty());
  act([&] { often.count(2, time_->now()); });
  EXPECT_THAT(tracker_.heard<staleness_observed>(), SizeIs(1));
}

TEST_F(GapNotices, TellsTheTrackerAtOnceWhenAPolicyEnds) {
  act([&] {
    gaps_.count(1, time_->now());
    gaps_.flush();
  });
  ASSERT_THAT(tracker_.heard<staleness_observed>(), SizeIs(1));
}

class ProgressNotices : public testing::PlayedWorker {
protected:
  /// What the tracker was told behind the first step, which it is told at once.
  std::vector<worker_progress> told() {
    const std::vector<worker_progress>& all = tracker_.heard<worker_progress>();
    return {all.begin() + std::min<std::ptrdiff_t>(1, static_cast<std::ptrdiff_t>(all.size())), all.end()};
  }
  void tell_first_step(progress_notices& notices, instant now) {
    notices.begin(now);
    notices.count(8, 7.0F);
    act([&] { notices.notify_if_due(now, {}); });
  }

  testing::listener<worker_progress> tracker_ = listen<worker_progress>();
  testing::listener<worker_progress> coordinator_ = listen<worker_progress>();
  progress_notices notices_{self_, tracker_.actor(), coordinator_.actor(), {1}};
};

TEST_F(ProgressNotices, TellTheFirstLossAtOnce) {
  notices_.begin(5s);
  notices_.count(8, std::nullopt); // of a gradient that is discarded in any case
  act([&] { notices_.notify_if_due(5s, {}); });
  EXPECT_THAT(tracker_.heard<worker_progress>(), IsEmpty());
  notices_.count(4, 2.5F);
  act([&] { notices_.notify_if_due(5s, {}); });
  notices_.count(4, 3.5F);
  act([&] { notices_.notify_if_due(5s, {}); });
  ASSERT_THAT(tracker_.heard<worker_progress>(), SizeIs(1));
  ASSERT_THAT(coordinator_.heard<worker_progress>(), SizeIs(1)) << "it measures others by it";
  EXPECT_EQ(std::bit_cast<double>(coordinator_.heard<worker_progress>()[0].loss_sum_bits), 10);
}

TEST_F(ProgressNotices, ComeATenthOfASecondApart) {
  tell_first_step(notices_, 5s);
  notices_.count(8, 1.5F);
  act([&] { notices_.notify_if_due(5s + 99ms, {}); });
  EXPECT_THAT(told(), IsEmpty());
  notices_.count(4, 2.5F);
  act([&] { notices_.notify_if_due(5s + 100ms, {30, 3, 7}); });
  ASSERT_THAT(told(), SizeIs(1));
  const worker_progress x = told()[0];
  EXPECT_EQ(x.worker, rank{1});
  EXPECT_EQ(x.steps, 2U);
  EXPECT_EQ(x.samples, 12U);
  EXPECT_EQ(std::bit_cast<double>(x.loss_sum_bits), 22) << "each sample counts";
  EXPECT_EQ(instant{x.span}, 100ms);
  EXPECT_EQ(x.sums.barrier_wait, 30);
  EXPECT_EQ(x.sums.feeder_wait, 7);
}

TEST_F(ProgressNotices, ComeAfterAsManyStepsAsThePaceSays) {
  progress_notices often{self_, tracker_.actor(), coordinator_.actor(), {1}, {.steps = 2}};
  tell_first_step(often, 5s);
  often.count(8, 1);
  act([&] { often.notify_if_due(5s + 3ms, {}); });
  EXPECT_THAT(told(), IsEmpty());
  often.count(8, 1);
  act([&] { often.notify_if_due(5s + 4ms, {}); });
  ASSERT_THAT(told(), SizeIs(1));
  EXPECT_EQ(told()[0].steps, 2U);
}

TEST_F(ProgressNotices, TellOnlyWhatIsNew) {
  notices_.begin(0s);
  notices_.count(8, 1);
  act([&] { notices_.notify_if_due(1s, {30, 3, 7}); });
  notices_.count(3, 5);
  act([&] { notices_.notify_if_due(1s + 250ms, {100, 3, 17}); });
  ASSERT_THAT(told(), SizeIs(1));
  const worker_progress x = told()[0];
  EXPECT_EQ(x.worker, rank{1});
  EXPECT_EQ(x.steps, 1U);
  EXPECT_EQ(x.samples, 3U);
  EXPECT_EQ(std::bit_cast<double>(x.loss_sum_bits), 15);
  EXPECT_EQ(instant{x.span}, 250ms);
  EXPECT_EQ(x.sums.barrier_wait, 70);
  EXPECT_EQ(x.sums.feeder_wait, 10);
}

TEST_F(ProgressNotices, TellTheCoordinatorWhatNoReportMayTell) {
  notices_.begin(0s);
  notices_.count(8, 1);
  act([&] { notices_.notify_if_due(1s, {30, 3, 7}); });
  notices_.count(3, 5);
  act([&] { notices_.notify(1s, {30, 3, 7}); });
  EXPECT_THAT(told(), SizeIs(1));
  ASSERT_THAT(coordinator_.heard<worker_progress>(), SizeIs(1)) << "the report comes at once";
  EXPECT_EQ(coordinator_.heard<worker_progress>()[0].samples, 8U);
}

TEST_F(ProgressNotices, TellTheRestAtTheEnd) {
  notices_.begin(0s);
  notices_.count(8, 1);
  act([&] { notices_.notify(10ms, {}); });
  ASSERT_THAT(tracker_.heard<worker_progress>(), SizeIs(1));
  EXPECT_EQ(tracker_.heard<worker_progress>()[0].steps, 1U);
  act([&] { notices_.notify(1s, {}); });
  EXPECT_THAT(tracker_.heard<worker_progress>(), SizeIs(1)) << "there is nothing new";
}

/// A run that is resumed has waited before, and a tracker that begins anew must not hear it as one long wait.
TEST_F(ProgressNotices, TellNoWaitOfAnEarlierProcess) {
  notices_.begin(0s, {500, 3, 90});
  notices_.count(8, 1);
  act([&] { notices_.notify_if_due(1s, {530, 3, 97}); });
  ASSERT_THAT(tracker_.heard<worker_progress>(), SizeIs(1));
  EXPECT_EQ(tracker_.heard<worker_progress>()[0].sums.barrier_wait, 30);
  EXPECT_EQ(tracker_.heard<worker_progress>()[0].sums.feeder_wait, 7);
}

class TraceTeller : public testing::PlayedWorker {
protected:
  void record(std::size_t events) {
    for (std::size_t i = 0; i < events; ++i) track_->work({trace_kind::compute, time_->now(), time_->now()});
  }
  void tell_if_due() {
    act([&] { teller_.tell_if_due(time_->now()); });
  }
  /// The coordinator answers.
  void answer() {
    act([&] { teller_.on_taken({}); });
  }
  void end() {
    act([&] { teller_.end([this] { ++ends_; }); });
  }

  std::vector<trace_piece>& told() { return told_; }

  std::vector<trace_piece> told_;
  std::shared_ptr<trace_track> track_ = std::make_shared<trace_track>("worker 1", 1000, 0ns);
  int ends_ = 0;
  trace_teller teller_{
      {"cpu:0", time_, track_, [this](trace_piece piece) { told_.push_back(std::move(piece)); }}};
};

TEST_F(TraceTeller, TellsFirstWhatTimeItIs) {
  time_->advance(5s);
  act([&] { teller_.begin(); });
  ASSERT_THAT(told(), SizeIs(1));
  EXPECT_EQ(told()[0].device, "cpu:0");
  EXPECT_EQ(told()[0].sent, time_->now().count());
  EXPECT_FALSE(told()[0].answered);
  EXPECT_THAT(told()[0].events, IsEmpty());
}

TEST_F(TraceTeller, WaitsForAWholePieceOrASecond) {
  act([&] { teller_.begin(); });
  answer();
  record(trace_piece::most_events - 1);
  tell_if_due();
  EXPECT_THAT(told(), SizeIs(1));
  record(1);
  tell_if_due();
  ASSERT_THAT(told(), SizeIs(2));
  EXPECT_THAT(told()[1].events, SizeIs(trace_piece::most_events));
  answer();
  record(3);
  tell_if_due();
  EXPECT_THAT(told(), SizeIs(2));
  time_->advance(1s);
  tell_if_due();
  ASSERT_THAT(told(), SizeIs(3));
  EXPECT_THAT(told()[2].events, SizeIs(3));
  answer();
  time_->advance(1s);
  tell_if_due();
  EXPECT_THAT(told(), SizeIs(3)) << "nothing has happened";
}

TEST_F(TraceTeller, HasOnePieceUnderWay) {
  act([&] { teller_.begin(); });
  record(600);
  time_->advance(9s);
  tell_if_due();
  EXPECT_THAT(told(), SizeIs(1)) << "it is not answered";
  answer();
  time_->advance(2s);
  tell_if_due();
  ASSERT_THAT(told(), SizeIs(2));
  EXPECT_EQ(instant{*told()[1].answered}, time_->now() - 2s);
  tell_if_due();
  EXPECT_THAT(told(), SizeIs(2));
}

TEST_F(TraceTeller, TellsTheRestAtTheEndPieceByPiece) {
  act([&] { teller_.begin(); });
  record(1200);
  end();
  EXPECT_THAT(told(), SizeIs(1)) << "the first is not answered";
  for (std::size_t pieces = 2; pieces <= 5; ++pieces) {
    EXPECT_EQ(ends_, 0);
    answer();
    ASSERT_THAT(told(), SizeIs(pieces)) << "there was room for 1000";
  }
  EXPECT_EQ(ends_, 1) << "nothing more depends on the last answer";
  EXPECT_THAT(told()[4].events, SizeIs(1000 - 3 * trace_piece::most_events));
  EXPECT_EQ(told()[4].left_out, 200U);
  answer();
  tell_if_due();
  EXPECT_THAT(told(), SizeIs(5));
  EXPECT_EQ(ends_, 1);
}

TEST_F(TraceTeller, EndsAtOnceIfItHasToldAll) {
  act([&] { teller_.begin(); });
  answer();
  record(3);
  end();
  EXPECT_THAT(told(), SizeIs(2));
  EXPECT_EQ(ends_, 1);
}

TEST_F(TraceTeller, EndsWithoutTheRestWhenNobodyTakesIt) {
  act([&] {
    teller_.begin();
    teller_.give_up();
  });
  EXPECT_EQ(ends_, 0) << "it has not been asked to end";
  record(600);
  end();
  act([&] { teller_.give_up(); });
  EXPECT_EQ(ends_, 1);
  answer();
  act([&] { teller_.give_up(); });
  EXPECT_THAT(told(), SizeIs(1));
  EXPECT_EQ(ends_, 1);
}

TEST_F(TraceTeller, TellsNothingWithoutATrack) {
  trace_teller none(
      {"cpu:0", time_, nullptr, [this](trace_piece piece) { told_.push_back(std::move(piece)); }});
  act([&] {
    none.begin();
    none.tell_if_due(time_->now());
    none.end([this] { ++ends_; });
  });
  EXPECT_EQ(ends_, 1);
  EXPECT_THAT(told(), IsEmpty());
}

} // namespace
} // namespace mailgrad
