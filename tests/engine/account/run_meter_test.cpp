#include <mailgrad/engine/account/run_meter.hpp>
#include <mailgrad/engine/account/training_progress.hpp>

#include <gtest/gtest.h>

#include <chrono>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;

staleness_histogram gaps(std::uint64_t gap, std::uint64_t times) {
  staleness_histogram h;
  h.count(gap, times);
  return h;
}

TEST(RunMeter, SumsWhatItIsTold) {
  run_meter m({100, 0.1, parse_schedule("step:every=50,factor=0.5")}, {});
  m.add({.steps = 20, .samples = 1280, .loss_sum = 640, .waited = 500'000'000});
  m.add({.steps = 5, .samples = 320, .loss_sum = 160, .waited = 250'000'000});
  m.add(gaps(1, 24), shard_counts{{0}, {60}, 25, 1, 20, 4});
  m.add(gaps(3, 24), shard_counts{{1}, {59}, 25, 1, 24});
  const metrics_line x = m.take(2s);
  EXPECT_EQ(x.time_s, 2);
  EXPECT_EQ(x.steps, 25U);
  EXPECT_EQ(x.samples, 1600U);
  EXPECT_EQ(x.updates, 60U) << "of the shard that made most";
  EXPECT_DOUBLE_EQ(x.epoch, 0.25);
  EXPECT_DOUBLE_EQ(x.train_loss.value(), 0.5);
  EXPECT_DOUBLE_EQ(x.learning_rate, 0.05);
  EXPECT_DOUBLE_EQ(x.staleness_mean.value(), 2) << "of both shards";
  EXPECT_EQ(x.staleness_p99, 3U);
  EXPECT_EQ(x.computed, 25U);
  EXPECT_EQ(x.applied, 20U) << "each gradient counts once, and those of batches not here";
  EXPECT_EQ(x.merged, 4U);
  EXPECT_EQ(x.discarded, 1U);
  EXPECT_DOUBLE_EQ(x.samples_per_s, 800);
  EXPECT_DOUBLE_EQ(x.waiting_s, 0.75);
}

TEST(RunMeter, BeginsMeansAnewAndGoesOnCounting) {
  run_meter m({100, 0.1}, {});
  m.add({.steps = 1, .samples = 10, .loss_sum = 100});
  m.add(gaps(7, 1), shard_counts{{0}, {1}, 1, 0, 1});
  m.take(1s);
  const metrics_line none = m.take(1500ms);
  EXPECT_FALSE(none.train_loss) << "unknown is not 0";
  EXPECT_FALSE(none.staleness_mean);
  EXPECT_EQ(none.samples_per_s, 0);
  EXPECT_EQ(none.samples, 10U);
  m.add({.steps = 1, .samples = 10, .loss_sum = 5});
  m.add(gaps(1, 1), shard_counts{{0}, {2}, 2, 0, 2});
  const metrics_line x = m.take(2s);
  EXPECT_DOUBLE_EQ(x.train_loss.value(), 0.5);
  EXPECT_DOUBLE_EQ(x.staleness_mean.value(), 1);
  EXPECT_DOUBLE_EQ(x.samples_per_s, 20);
  EXPECT_EQ(x.applied, 2U);
}

/// Workers tell what they did about ten times a second, each all at once, so a moment has no rate of its own.
TEST(RunMeter, MeasuresTheRateOverHalfASecond) {
  run_meter m({}, {});
  m.add({.steps = 1, .samples = 100});
  EXPECT_DOUBLE_EQ(m.take(100ms).samples_per_s, 1000) << "since the beginning";
  m.add({.steps = 1, .samples = 100});
  EXPECT_DOUBLE_EQ(m.take(125ms).samples_per_s, 1600);
  m.add({.steps = 1, .samples = 500});
  EXPECT_DOUBLE_EQ(m.take(625ms).samples_per_s, 1000) << "since the line at 125 ms";
  m.add({.steps = 1, .samples = 50});
  EXPECT_DOUBLE_EQ(m.take(625ms + 1us).samples_per_s, 550 / 0.500001) << "likewise, for the last one is new";
  EXPECT_DOUBLE_EQ(m.take(1625ms).samples_per_s, 0);
}

TEST(RunMeter, CountsUpdatesOfTheBlockUntilTheShardsHaveThem) {
  run_meter m({}, {});
  m.add(gaps(0, 10), shard_counts{{0}, {10}, 10, 0, 10});
  m.add(gaps(2, 5), std::nullopt);
  const metrics_line in_block = m.take(1s);
  EXPECT_EQ(in_block.updates, 15U);
  EXPECT_EQ(in_block.computed, 15U);
  EXPECT_EQ(in_block.applied, 15U);
  m.add(gaps(0, 1), shard_counts{{0}, {16}, 11, 0});
  EXPECT_EQ(m.take(2s).updates, 16U) << "no update counts twice";
}

TEST(RunMeter, SaysWhichSamplesATestWasOn) {
  run_meter m({10, 0.1}, {});
  evaluation_made test{.steps = 1, .loss = 0.5, .accuracy = 0.75};
  EXPECT_EQ(m.take(1s, test).test_loss, 0.5);
  EXPECT_FALSE(m.take(1s, test).validation_loss);
  test.held_out = true;
  const metrics_line x = m.take(1s, test);
  EXPECT_FALSE(x.test_loss || x.test_accuracy);
  EXPECT_EQ(x.validation_loss, 0.5);
  EXPECT_EQ(x.validation_accuracy, 0.75);
}

TEST(RunMeter, GoesOnWhereAnEarlierProcessWas) {
  run_meter m({100, 0.1}, {.steps = 40});
  m.resume({.steps = 50, .samples = 500, .loss_sum = 0, .waited = 2'000'000'000}, 10s);
  m.add({.steps = 5, .samples = 50, .loss_sum = 25, .waited = 500'000'000});
  EXPECT_FALSE(m.due(1s)) << "the next line is at step 80";
  m.add(gaps(1, 5), shard_counts{{0}, {54}, 55, 1, 54});
  const metrics_line x = m.take(2s);
  EXPECT_EQ(x.time_s, 12);
  EXPECT_EQ(x.steps, 55U);
  EXPECT_EQ(x.samples, 550U);
  EXPECT_DOUBLE_EQ(x.epoch, 0.55);
  EXPECT_DOUBLE_EQ(x.train_loss.value(), 0.5);
  EXPECT_DOUBLE_EQ(x.samples_per_s, 25) << "of this process alone";
  EXPECT_DOUBLE_EQ(x.waiting_s, 2.5);
  EXPECT_EQ(x.applied, 54U) << "as the shard counts, which was kept too";
  metrics_line known;
  known.time_s = 13;
  known.steps = 60;
  known.samples = 600;
  m.add({.steps = 5, .samples = 50});
  const metrics_line last = m.close(known);
  EXPECT_EQ(last.time_s, 13);
  EXPECT_EQ(last.steps, 60U);
  EXPECT_DOUBLE_EQ(last.samples_per_s, 50);
}

/// The run may end before the line of its last step is made, and a lost worker may have told more than is
/// known of it.
TEST(RunMeter, EndsNeitherBeforeItsLastLineNorWithLessWaiting) {
  run_meter m({10, 0.1}, {});
  m.add({.steps = 5, .samples = 50, .waited = 700'000'000});
  m.take(1781ms);
  metrics_line known;
  known.time_s = 1.761;
  known.waiting_s = 0.4;
  const metrics_line last = m.close(known);
  EXPECT_DOUBLE_EQ(last.time_s, 1.781);
  EXPECT_DOUBLE_EQ(last.waiting_s, 0.7);
}

TEST(RunMeter, KeepsTheGapsOfALine) {
  run_meter m({}, {});
  m.add(gaps(2, 3), shard_counts{{0}, {3}, 3, 0, 3});
  EXPECT_TRUE(m.gaps_of_line().empty());
  m.take(1s);
  EXPECT_EQ(m.gaps_of_line().total(), 3U);
  EXPECT_EQ(m.gaps_of_line().max(), 2U);
  m.add(gaps(1, 1), shard_counts{{0}, {4}, 4, 0, 4});
  m.close({.time_s = 2});
  EXPECT_EQ(m.gaps_of_line().total(), 1U);
  m.take(3s);
  EXPECT_TRUE(m.gaps_of_line().empty());
}

TEST(RunMeter, EndsWithWhatTheReportKnows) {
  run_meter m({10, 0.1}, {});
  m.add({.steps = 3, .samples = 30, .loss_sum = 60});
  metrics_line known;
  known.time_s = 4;
  known.steps = known.updates = 5;
  known.samples = 50;
  known.computed = 5;
  known.applied = 4;
  known.discarded = 1;
  known.waiting_s = 0.5;
  known.test_loss = 1.5;
  known.validation_accuracy = 0.25;
  const metrics_line x = m.close(known);
  EXPECT_EQ(x.time_s, 4);
  EXPECT_EQ(x.steps, 5U);
  EXPECT_EQ(x.updates, 5U);
  EXPECT_EQ(x.samples, 50U);
  EXPECT_DOUBLE_EQ(x.epoch, 0.5);
  EXPECT_DOUBLE_EQ(x.train_loss.value(), 2);
  EXPECT_EQ(x.computed, 5U);
  EXPECT_EQ(x.applied, 4U);
  EXPECT_EQ(x.discarded, 1U);
  EXPECT_EQ(x.waiting_s, 0.5);
  EXPECT_EQ(x.test_loss, 1.5);
  EXPECT_EQ(x.validation_accuracy, 0.25);
}

/// The ledger of the run may be that of another shard than the first, which has applied less. Counts of two
/// shards make no ledger together.
TEST(RunMeter, EndsWithNoCountBehindThatOfAnEarlierLineAndWithThoseOfOneShard) {
  run_meter m({10, 0.1}, {});
  m.add(gaps(1, 4), shard_counts{{0}, {4}, 7, 3, 4});
  EXPECT_EQ(m.take(1s).applied, 4U);
  metrics_line known;
  known.computed = 8;
  known.applied = 3;
  known.discarded = 3;
  const metrics_line x = m.close(known);
  EXPECT_EQ(x.updates, 4U);
  EXPECT_EQ(x.computed, 7U);
  EXPECT_EQ(x.applied, 4U);
  EXPECT_EQ(x.discarded, 3U);
  known.applied = 5;
  EXPECT_EQ(m.close(known).computed, 8U);
  EXPECT_EQ(m.close(known).applied, 5U);
}

TEST(IntervalClock, CountsSteps) {
  interval_clock c({.steps = 10}, 100);
  EXPECT_FALSE(c.ended(9, 1h));
  EXPECT_TRUE(c.ended(10, 1h));
  EXPECT_FALSE(c.ended(19, 1h));
  EXPECT_TRUE(c.ended(45, 1h)) << "several at once";
  EXPECT_FALSE(c.ended(49, 1h)) << "count as one";
  EXPECT_TRUE(c.ended(50, 1h));
}

TEST(IntervalClock, CountsTimeFromTheStartOfTheRun) {
  interval_clock c({.span = 1s}, 100);
  EXPECT_FALSE(c.ended(1000, 999ms));
  EXPECT_TRUE(c.ended(1000, 1700ms));
  EXPECT_FALSE(c.ended(1000, 1900ms));
  EXPECT_TRUE(c.ended(1000, 2s)) << "late once, it is late no more";
}

TEST(IntervalClock, CountsEpochs) {
  interval_clock c({.epochs = 1}, 7);
  EXPECT_FALSE(c.ended(6, 0s));
  EXPECT_TRUE(c.ended(7, 0s));
  EXPECT_FALSE(c.ended(13, 0s));
  EXPECT_TRUE(c.ended(14, 0s));
}

TEST(IntervalClock, NeverEndsWithoutAnInterval) {
  interval_clock c({}, 0);
  EXPECT_FALSE(c.ended(1'000'000, 24h));
}

notice_pace pace(const std::vector<interval>& wanted, std::size_t workers = 1) {
  return pace_for(wanted, 60, workers);
}

TEST(NoticePace, IsTenTimesASecondUnlessMoreIsWanted) {
  EXPECT_EQ(pace({}), notice_pace{});
  EXPECT_EQ(pace({{.span = 1s}, {}}), notice_pace{});
  EXPECT_FALSE(notice_pace{}.due(99ms, 1'000'000));
  EXPECT_TRUE(notice_pace{}.due(100ms, 1));
}

TEST(NoticePace, FollowsTheShortestInterval) {
  EXPECT_EQ(pace({{.span = 20ms}, {.steps = 500}, {.epochs = 2}}), (notice_pace{20ms, 120}));
  EXPECT_EQ(pace({{.steps = 50}, {.epochs = 1}}), (notice_pace{100ms, 50}));
}

/// The steps of an interval are those of all workers together.
TEST(NoticePace, SharesStepsAmongWorkers) {
  EXPECT_EQ(pace({{.epochs = 1}}, 4).steps, 15U);
  EXPECT_EQ(pace({{.steps = 3}}, 4).steps, 1U);
}

TEST(NoticePace, IsNeverMoreThanOnceAMillisecond) {
  EXPECT_EQ(pace({{.span = 1ns}}).span, 1ms);
  EXPECT_FALSE(pace({{.steps = 1}}).due(999us, 50));
  EXPECT_TRUE(pace({{.steps = 10}}).due(1ms, 10));
  EXPECT_FALSE(pace({{.steps = 10}}).due(50ms, 9));
}

} // namespace
} // namespace mailgrad
