#include <mailgrad/actors/run/staleness_tracker.hpp>
#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/support/played_actor.hpp>

#include <gmock/gmock.h>

#include <bit>
#include <variant>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using mailgrad::testing::only;
using ::testing::IsEmpty, ::testing::SizeIs;

worker_progress progress(std::uint32_t worker, std::uint64_t steps, std::uint64_t samples, double loss) {
  const double loss_sum = loss * static_cast<double>(samples);
  return {{worker}, steps, samples, std::bit_cast<std::uint64_t>(loss_sum)};
}

class StalenessTracker : public testing::DeterministicTest {
protected:
  std::vector<training_progress> shown_;
  caf::actor tracker_ = start<staleness_tracker>(
      staleness_tracker_options{time_, [this](const training_progress& p) { shown_.push_back(p); }});
};

TEST_F(StalenessTracker, SumsWhatWorkersDid) {
  run();
  time_->advance(3s);
  tell(tracker_, progress(0, 0, 0, 0));
  EXPECT_THAT(shown_, IsEmpty()) << "no step";
  tell(tracker_, progress(0, 10, 640, 0.5));
  tell(tracker_, progress(1, 4, 256, 0.25));
  ASSERT_THAT(shown_, SizeIs(2));
  EXPECT_EQ(shown_[1].steps, 14U);
  EXPECT_EQ(shown_[1].samples, 896U);
  EXPECT_DOUBLE_EQ(shown_[0].loss, 0.5);
  EXPECT_DOUBLE_EQ(shown_[1].loss, 0.25) << "the mean over the latest steps";
  EXPECT_EQ(shown_[1].elapsed, 3s) << "since its start";
  tell(start<staleness_tracker>(staleness_tracker_options{time_, {}}), progress(0, 1, 1, 1.0)); // unseen
}

TEST_F(StalenessTracker, AveragesTheGapsOfAllShards) {
  staleness_histogram gaps;
  gaps.count(0, 3);
  gaps.count(4);
  tell(tracker_, staleness_observed{gaps});
  tell(tracker_, staleness_observed{gaps});
  EXPECT_THAT(shown_, IsEmpty());
  tell(tracker_, progress(0, 1, 1, 1.0));
  EXPECT_DOUBLE_EQ(shown_.back().staleness_mean, 1);
}

/// A tracker that makes a line each second and has the weights tested each 10 steps.
class MeasuringTracker : public testing::DeterministicTest {
protected:
  static staleness_tracker_options options(const std::shared_ptr<const time_source>& time,
                                           const caf::actor& observer) {
    staleness_tracker_options o{time, {}};
    o.scale = {10, 0.5};
    o.lines = {.span = 1s};
    o.tests = {.steps = 10};
    o.observer = observer;
    return o;
  }
  template <class Event>
  std::vector<Event> seen() {
    std::vector<Event> found;
    for (const event_noted& x : observer_.heard<event_noted>())
      if (const auto* e = std::get_if<Event>(&x.what)) found.push_back(*e);
    return found;
  }

  testing::listener<event_noted, end_events> observer_ = listen<event_noted, end_events>();
  testing::listener<test_weights> evaluator_ = listen<test_weights>();
  caf::actor tracker_ = start<staleness_tracker>(options(time_, observer_.actor()));
};

TEST_F(MeasuringTracker, MakesALineWhenOneIsDue) {
  run();
  time_->advance(900ms);
  tell(tracker_, progress(0, 1, 10, 2));
  EXPECT_THAT(seen<metrics_line>(), IsEmpty());
  time_->advance(200ms);
  tell(tracker_, progress(0, 1, 10, 1));
  EXPECT_DOUBLE_EQ(only(seen<metrics_line>()).train_loss.value(), 1.5);
  EXPECT_DOUBLE_EQ(seen<metrics_line>()[0].time_s, 1.1);
}

TEST_F(MeasuringTracker, TellsTheGapsBeforeTheirLine) {
  run();
  staleness_histogram gaps;
  gaps.count(3, 2);
  tell(tracker_, staleness_observed{gaps});
  time_->advance(1s);
  tell(tracker_, progress(0, 4, 10, 2));
  time_->advance(1s);
  tell(tracker_, progress(0, 1, 10, 2));
  const auto events = observer_.heard<event_noted>();
  ASSERT_THAT(events, SizeIs(3)) << "without gaps a line comes alone";
  const auto* told = std::get_if<gaps_measured>(&events[0].what);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->steps, 4U);
  EXPECT_EQ(told->time_s, 1);
  EXPECT_EQ(told->gaps.buckets(), gaps.buckets());
  EXPECT_TRUE(std::holds_alternative<metrics_line>(events[1].what));
}

TEST_F(MeasuringTracker, GoesOnWhereAnEarlierProcessWas) {
  auto o = options(time_, observer_.actor());
  o.done = {.steps = 15, .samples = 150};
  o.elapsed = 60s;
  const caf::actor tracker = start<staleness_tracker>(o);
  tell(tracker, watch_tests{evaluator_.actor()});
  time_->advance(1s);
  tell(tracker, progress(0, 1, 10, 1));
  EXPECT_THAT(evaluator_.heard<test_weights>(), IsEmpty()) << "the next test is at step 20";
  EXPECT_EQ(only(seen<metrics_line>()).steps, 16U);
  EXPECT_EQ(seen<metrics_line>()[0].time_s, 61);
}

TEST_F(MeasuringTracker, HasTheWeightsTestedOnceAtATime) {
  tell(tracker_, progress(0, 10, 10, 1));
  EXPECT_THAT(evaluator_.heard<test_weights>(), IsEmpty()) << "nobody tests yet";
  tell(tracker_, watch_tests{evaluator_.actor()});
  tell(tracker_, progress(0, 1, 10, 1));
  EXPECT_EQ(only(evaluator_.heard<test_weights>()).steps, 11U);
  tell(tracker_, progress(0, 30, 10, 1));
  EXPECT_THAT(evaluator_.heard<test_weights>(), SizeIs(1)) << "a test is under way";
  tell(tracker_, weights_tested{{.steps = 11, .loss = 0.5, .accuracy = 0.75}});
  EXPECT_EQ(only(seen<evaluation_made>()).steps, 11U);
  EXPECT_EQ(only(seen<metrics_line>()).test_accuracy, 0.75);
  tell(tracker_, progress(0, 1, 10, 1));
  EXPECT_THAT(evaluator_.heard<test_weights>(), SizeIs(2));
  tell(tracker_, weights_tested{{.steps = 42, .loss = 0.5}, false});
  EXPECT_THAT(seen<metrics_line>(), SizeIs(1)) << "a test that was given up says nothing";
}

TEST_F(MeasuringTracker, TellsWhyATestWasLeftOut) {
  tell(tracker_, watch_tests{evaluator_.actor()});
  tell(tracker_, weights_tested{{.steps = 11}, false, "no memory"});
  EXPECT_EQ(only(seen<test_left_out>()).steps, 11U);
  EXPECT_EQ(seen<test_left_out>()[0].why, "no memory");
  EXPECT_THAT(seen<evaluation_made>(), IsEmpty());
  tell(tracker_, weights_tested{{.steps = 12}, false});
  EXPECT_THAT(seen<test_left_out>(), SizeIs(1)) << "that one was given up";
}

TEST_F(MeasuringTracker, EndsTheRunWhenItHasBeenTrainedEnough) {
  auto coordinator = listen<stop_training>();
  staleness_tracker_options o = options(time_, nullptr);
  o.lines = {.steps = 1};
  o.enough = early_stop(parse_stop_conditions("train_loss<0.5", judged_on::nothing), 0);
  const caf::actor tracker = start<staleness_tracker>(std::move(o));
  tell(tracker, stop_by{coordinator.actor()});
  tell(tracker, progress(0, 1, 10, 1));
  EXPECT_THAT(coordinator.heard<stop_training>(), IsEmpty());
  tell(tracker, progress(0, 1, 10, 0.25));
  EXPECT_EQ(only(coordinator.heard<stop_training>()).why, "train_loss is 0.25, below 0.5");
  EXPECT_TRUE(coordinator.heard<stop_training>()[0].enough);
  tell(tracker, progress(0, 1, 10, 0.2));
  EXPECT_THAT(coordinator.heard<stop_training>(), SizeIs(1)) << "once is enough";
}

TEST_F(MeasuringTracker, EndsTheRunWhenTestsGetNoBetter) {
  auto coordinator = listen<stop_training, tests_judged>();
  staleness_tracker_options o = options(time_, observer_.actor());
  o.enough = early_stop({}, 2);
  const caf::actor tracker = start<staleness_tracker>(std::move(o));
  tell(tracker, stop_by{coordinator.actor()});
  tell(tracker, weights_tested{{.steps = 10, .loss = 0.5}});
  tell(tracker, weights_tested{{.steps = 20, .loss = 0.75}});
  tell(tracker, weights_tested{{.steps = 25, .loss = 0.75}, false});
  EXPECT_THAT(coordinator.heard<stop_training>(), IsEmpty()) << "a test that was given up does not count";
  ASSERT_THAT(coordinator.heard<tests_judged>(), SizeIs(2)) << "what checkpoints keep";
  EXPECT_EQ(coordinator.heard<tests_judged>()[1].so_far,
            (judged_tests{.steps = 20, .worse = 1, .lowest_loss = 0.5, .lowest_at = 10}));
  tell(tracker, weights_tested{{.steps = 27, .loss = 0.75}, false, "no memory"});
  EXPECT_THAT(coordinator.heard<stop_training>(), IsEmpty()) << "nor does one that was left out";
  tell(tracker, weights_tested{{.steps = 30, .loss = 0.5}});
  ASSERT_THAT(coordinator.heard<stop_training>(), SizeIs(1));
  tell(tracker, watch_tests{evaluator_.actor()});
  tell(tracker, progress(0, 50, 10, 1));
  EXPECT_THAT(evaluator_.heard<test_weights>(), IsEmpty()) << "the run ends, so nothing more is tested";
}

/// The earlier process was killed at step 25, while the test of step 20 was under way, or after it had ended.
TEST_F(MeasuringTracker, MakesEachTestOnceDespiteAnInterruption) {
  for (const std::uint64_t last : {10U, 20U, 30U}) {
    auto evaluator = listen<test_weights>();
    staleness_tracker_options o = options(time_, nullptr);
    o.enough = early_stop({}, 2, {.steps = last, .lowest_loss = 0.5, .lowest_at = 10});
    o.done.steps = 25;
    const caf::actor tracker = start<staleness_tracker>(std::move(o));
    tell(tracker, watch_tests{evaluator.actor()});
    tell(tracker, progress(0, 1, 10, 1));
    EXPECT_THAT(evaluator.heard<test_weights>(), SizeIs(last == 10 ? 1 : 0)) << last;
    if (last == 10) tell(tracker, weights_tested{{.steps = 26, .loss = 0.5}});
    tell(tracker, progress(0, 4, 40, 1));
    EXPECT_THAT(evaluator.heard<test_weights>(), SizeIs(last == 10 ? 2 : last == 20 ? 1 : 0)) << last;
  }
}

TEST_F(MeasuringTracker, EndsWithTheLastLine) {
  tell(tracker_, progress(0, 2, 10, 3));
  metrics_line known;
  known.time_s = 0.5;
  known.steps = 3;
  tell(tracker_, close_metrics{known, tracker_});
  EXPECT_EQ(only(seen<metrics_line>()).steps, 3U);
  EXPECT_EQ(seen<metrics_line>()[0].train_loss, 3);
  EXPECT_THAT(observer_.heard<end_events>(), SizeIs(1));
  tell(tracker_, weights_tested{{.steps = 3}});
  EXPECT_THAT(seen<evaluation_made>(), IsEmpty()) << "nobody listens any more";
  tell(tracker_, weights_tested{{.steps = 4}, false, "no memory"});
  EXPECT_THAT(seen<test_left_out>(), IsEmpty());
}

} // namespace
} // namespace mailgrad
