#include <mailgrad/actors/protocol/notices.hpp>
#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/support/played_actor.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre, ::testing::IsEmpty, ::testing::Pair, ::testing::SizeIs;
using testing::listener, testing::only;

class GapNotices : public testing::PlayedActorTest {
protected:
  std::vector<staleness_observed>& told() { return tracker_.heard<staleness_observed>(); }

  listener<staleness_observed> tracker_ = listen<staleness_observed>();
  gap_notices gaps_{self_, tracker_.actor(), *time_};
};

TEST_F(GapNotices, TellsTheTrackerOfManyGradientsAtOnce) {
  act([&] {
    for (std::uint64_t i = 1; i < gap_notices::per_notice; ++i) gaps_.count(2, time_->now());
  });
  EXPECT_THAT(told(), IsEmpty());
  act([&] { gaps_.count(5, time_->now()); });
  EXPECT_THAT(only(told()).gaps.buckets(), ElementsAre(Pair(2, gap_notices::per_notice - 1), Pair(5, 1)));
  act([&] { gaps_.flush(); });
  EXPECT_THAT(told(), SizeIs(1)) << "there is nothing new";
  act([&] {
    gaps_.count(1, time_->now());
    gaps_.flush(); // as when a policy ends
  });
  EXPECT_THAT(told(), SizeIs(2));
}

TEST_F(GapNotices, TellsTheTrackerAsOftenAsThePaceSays) {
  gap_notices often(self_, tracker_.actor(), *time_, {.steps = 2});
  time_->advance(1ms);
  act([&] { often.count(2, time_->now()); });
  EXPECT_THAT(told(), IsEmpty());
  act([&] { often.count(2, time_->now()); });
  EXPECT_THAT(told(), SizeIs(1));
}

class ProgressNotices : public testing::PlayedActorTest {
protected:
  /// What the tracker was told behind the first step, which it is told at once.
  std::vector<worker_progress> told() {
    const std::vector<worker_progress>& all = tracker_.heard<worker_progress>();
    return {all.begin() + std::min<std::ptrdiff_t>(1, static_cast<std::ptrdiff_t>(all.size())), all.end()};
  }
  std::vector<worker_progress>& told_all() { return tracker_.heard<worker_progress>(); }
  /// A step of so many samples has ended, and the worker has waited for so long.
  void step(progress_notices& notices, std::size_t samples, std::optional<float> loss, instant now,
            const worker_sums& waited = {}) {
    notices.count(samples, loss);
    act([&] { notices.notify_if_due(now, waited); });
  }

  listener<worker_progress> tracker_ = listen<worker_progress>();
  listener<worker_progress> coordinator_ = listen<worker_progress>();
  progress_notices notices_{self_, tracker_.actor(), coordinator_.actor(), {1}};
};

TEST_F(ProgressNotices, TellTheFirstLossAtOnce) {
  notices_.begin(5s);
  step(notices_, 8, std::nullopt, 5s); // of a gradient that is discarded in any case
  EXPECT_THAT(told_all(), IsEmpty());
  step(notices_, 4, 2.5F, 5s);
  step(notices_, 4, 3.5F, 5s);
  EXPECT_THAT(told_all(), SizeIs(1));
  const worker_progress& x = only(coordinator_.heard<worker_progress>()); // it measures others by it
  EXPECT_EQ(std::bit_cast<double>(x.loss_sum_bits), 10);
}

TEST_F(ProgressNotices, ComeATenthOfASecondApartAndTellOnlyWhatIsNew) {
  notices_.begin(5s);
  step(notices_, 8, 7.0F, 5s, {30, 3, 7});
  step(notices_, 8, 1.5F, 5s + 99ms, {90, 3, 7});
  EXPECT_THAT(told(), IsEmpty());
  step(notices_, 4, 2.5F, 5s + 100ms, {100, 3, 17});
  const worker_progress x = only(told());
  EXPECT_EQ(x.worker, rank{1});
  EXPECT_EQ(x.steps, 2U);
  EXPECT_EQ(x.samples, 12U);
  EXPECT_EQ(std::bit_cast<double>(x.loss_sum_bits), 22) << "each sample counts";
  EXPECT_EQ(instant{x.span}, 100ms);
  EXPECT_EQ(x.sums.barrier_wait, 70);
  EXPECT_EQ(x.sums.feeder_wait, 10);
}

TEST_F(ProgressNotices, ComeAfterAsManyStepsAsThePaceSays) {
  progress_notices often{self_, tracker_.actor(), coordinator_.actor(), {1}, {.steps = 2}};
  often.begin(5s);
  step(often, 8, 7.0F, 5s);
  step(often, 8, 1, 5s + 3ms);
  EXPECT_THAT(told(), IsEmpty());
  step(often, 8, 1, 5s + 4ms);
  EXPECT_EQ(only(told()).steps, 2U);
}

TEST_F(ProgressNotices, TellTheCoordinatorWhatNoReportMayTell) {
  notices_.begin(0s);
  step(notices_, 8, 1, 1s, {30, 3, 7});
  notices_.count(3, 5);
  act([&] { notices_.notify(1s, {30, 3, 7}); });
  EXPECT_THAT(told(), SizeIs(1));
  EXPECT_EQ(only(coordinator_.heard<worker_progress>()).samples, 8U) << "the report comes at once";
}

TEST_F(ProgressNotices, TellTheRestAtTheEnd) {
  notices_.begin(0s);
  notices_.count(8, 1);
  act([&] { notices_.notify(10ms, {}); });
  EXPECT_EQ(only(told_all()).steps, 1U);
  act([&] { notices_.notify(1s, {}); });
  EXPECT_THAT(told_all(), SizeIs(1)) << "there is nothing new";
}

/// A run that is resumed has waited before, and a tracker that begins anew must not hear it as one long wait.
TEST_F(ProgressNotices, TellNoWaitOfAnEarlierProcess) {
  notices_.begin(0s, {500, 3, 90});
  step(notices_, 8, 1, 1s, {530, 3, 97});
  EXPECT_EQ(only(told_all()).sums.barrier_wait, 30);
  EXPECT_EQ(told_all()[0].sums.feeder_wait, 7);
}

class TraceTeller : public testing::PlayedActorTest {
protected:
  void record(std::size_t events) {
    for (std::size_t i = 0; i < events; ++i) track_->work({trace_kind::compute, time_->now(), time_->now()});
  }
  void tell_if_due() {
    act([&] { teller_.tell_if_due(time_->now()); });
  }
  void answer() {
    act([&] { teller_.on_taken({}); });
  }
  void end() {
    act([&] { teller_.end([this] { ++ends_; }); });
  }

  std::vector<trace_piece> told_;
  std::shared_ptr<trace_track> track_ = std::make_shared<trace_track>("worker 1", 1000, 0ns);
  int ends_ = 0;
  trace_teller teller_{
      {"cpu:0", time_, track_, [this](trace_piece piece) { told_.push_back(std::move(piece)); }}};
};

TEST_F(TraceTeller, TellsFirstWhatTimeItIs) {
  time_->advance(5s);
  act([&] { teller_.begin(); });
  EXPECT_EQ(only(told_).device, "cpu:0");
  EXPECT_EQ(told_[0].sent, time_->now().count());
  EXPECT_FALSE(told_[0].answered);
  EXPECT_THAT(told_[0].events, IsEmpty());
}

TEST_F(TraceTeller, WaitsForAWholePieceOrASecond) {
  act([&] { teller_.begin(); });
  answer();
  record(trace_piece::most_events - 1);
  tell_if_due();
  EXPECT_THAT(told_, SizeIs(1));
  record(1);
  tell_if_due();
  ASSERT_THAT(told_, SizeIs(2));
  EXPECT_THAT(told_[1].events, SizeIs(trace_piece::most_events));
  answer();
  record(3);
  tell_if_due();
  EXPECT_THAT(told_, SizeIs(2));
  time_->advance(1s);
  tell_if_due();
  ASSERT_THAT(told_, SizeIs(3));
  EXPECT_THAT(told_[2].events, SizeIs(3));
  answer();
  time_->advance(1s);
  tell_if_due();
  EXPECT_THAT(told_, SizeIs(3)) << "nothing has happened";
}

TEST_F(TraceTeller, HasOnePieceUnderWay) {
  act([&] { teller_.begin(); });
  record(600);
  time_->advance(9s);
  tell_if_due();
  EXPECT_THAT(told_, SizeIs(1)) << "it is not answered";
  answer();
  time_->advance(2s);
  tell_if_due();
  ASSERT_THAT(told_, SizeIs(2));
  EXPECT_EQ(instant{*told_[1].answered}, time_->now() - 2s);
  tell_if_due();
  EXPECT_THAT(told_, SizeIs(2));
}

TEST_F(TraceTeller, TellsTheRestAtTheEndPieceByPiece) {
  act([&] { teller_.begin(); });
  record(1200);
  end();
  EXPECT_THAT(told_, SizeIs(1)) << "the first is not answered";
  for (std::size_t pieces = 2; pieces <= 5; ++pieces) {
    EXPECT_EQ(ends_, 0);
    answer();
    ASSERT_THAT(told_, SizeIs(pieces)) << "there was room for 1000";
  }
  EXPECT_EQ(ends_, 1) << "nothing more depends on the last answer";
  EXPECT_THAT(told_[4].events, SizeIs(1000 - 3 * trace_piece::most_events));
  EXPECT_EQ(told_[4].left_out, 200U);
  answer();
  tell_if_due();
  EXPECT_THAT(told_, SizeIs(5));
  EXPECT_EQ(ends_, 1);
}

TEST_F(TraceTeller, EndsAtOnceIfItHasToldAll) {
  act([&] { teller_.begin(); });
  answer();
  record(3);
  end();
  EXPECT_THAT(told_, SizeIs(2));
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
  EXPECT_THAT(told_, SizeIs(1));
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
  EXPECT_THAT(told_, IsEmpty());
}

} // namespace
} // namespace mailgrad
