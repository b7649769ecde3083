#include <mailgrad/engine/account/run_meter.hpp>
#include <mailgrad/engine/account/training_progress.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>

namespace mailgrad {
namespace {

using namespace std::chrono_literals;

staleness_histogram gaps(std::uint64_t gap, std::uint64_t times) {
  staleness_histogram h;
  h.count(gap, times);
  return h;
}

/// Expects these figures of a line, whatever the others are.
void expect_figures(const metrics_line& x, const char* figures) {
  const auto found = nlohmann::json::parse(to_json(x));
  auto expected = found;
  expected.update(nlohmann::json::parse(figures));
  EXPECT_EQ(found, expected);
}

/// Updates are those of the shard that made most, gaps those of both. Each gradient counts once.
TEST(RunMeter, SumsWhatItIsTold) {
  run_meter m({100, 0.1, parse_schedule("step:every=50,factor=0.5")}, {});
  m.add({.steps = 20, .samples = 1280, .loss_sum = 640, .waited = 500'000'000});
  m.add({.steps = 5, .samples = 320, .loss_sum = 160, .waited = 250'000'000});
  m.add(gaps(1, 24), shard_counts{{0}, {60}, 25, 1, 20, 4});
  m.add(gaps(3, 24), shard_counts{{1}, {59}, 25, 1, 24});
  expect_figures(m.take(2s), R"({"time_s": 2, "steps": 25, "samples": 1600, "updates": 60, "epoch": 0.25,
    "train_loss": 0.5, "learning_rate": 0.05, "staleness_mean": 2, "staleness_p99": 3, "computed": 25,
    "applied": 20, "merged": 4, "discarded": 1, "samples_per_s": 800, "waiting_s": 0.75})");
}

TEST(RunMeter, BeginsMeansAnewAndGoesOnCounting) {
  run_meter m({100, 0.1}, {});
  m.add({.steps = 1, .samples = 10, .loss_sum = 100});
  m.add(gaps(7, 1), shard_counts{{0}, {1}, 1, 0, 1});
  m.take(1s);
  expect_figures(m.take(1500ms),
                 R"({"train_loss": null, "staleness_mean": null, "samples_per_s": 0, "samples": 10})");
  m.add({.steps = 1, .samples = 10, .loss_sum = 5});
  m.add(gaps(1, 1), shard_counts{{0}, {2}, 2, 0, 2});
  expect_figures(m.take(2s),
                 R"({"train_loss": 0.5, "staleness_mean": 1, "samples_per_s": 20, "applied": 2})");
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
  expect_figures(m.take(1s), R"({"updates": 15, "computed": 15, "applied": 15})");
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
  expect_figures(x, R"({"validation_loss": 0.5, "validation_accuracy": 0.75})");
}

/// Samples a second are those of this process alone; a shard's counts were kept.
TEST(RunMeter, GoesOnWhereAnEarlierProcessWas) {
  run_meter m({100, 0.1}, {.steps = 40});
  m.resume({.steps = 50, .samples = 500, .loss_sum = 0, .waited = 2'000'000'000}, 10s);
  m.add({.steps = 5, .samples = 50, .loss_sum = 25, .waited = 500'000'000});
  EXPECT_FALSE(m.due(1s)) << "the next line is at step 80";
  m.add(gaps(1, 5), shard_counts{{0}, {54}, 55, 1, 54});
  expect_figures(m.take(2s), R"({"time_s": 12, "steps": 55, "samples": 550, "epoch": 0.55, "train_loss": 0.5,
    "samples_per_s": 25, "waiting_s": 2.5, "applied": 54})");
  m.add({.steps = 5, .samples = 50});
  expect_figures(m.close({.time_s = 13, .steps = 60, .samples = 600}),
                 R"({"time_s": 13, "steps": 60, "samples_per_s": 50})");
}

/// The run may end before the line of its last step is made, and a lost worker may have told more than is
/// known of it.
TEST(RunMeter, EndsNeitherBeforeItsLastLineNorWithLessWaiting) {
  run_meter m({10, 0.1}, {});
  m.add({.steps = 5, .samples = 50, .waited = 700'000'000});
  m.take(1781ms);
  const metrics_line last = m.close({.time_s = 1.761, .waiting_s = 0.4});
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
  expect_figures(m.close({.time_s = 4,
                          .steps = 5,
                          .updates = 5,
                          .samples = 50,
                          .computed = 5,
                          .applied = 4,
                          .discarded = 1,
                          .waiting_s = 0.5,
                          .test_loss = 1.5,
                          .validation_accuracy = 0.25}),
                 R"({"time_s": 4, "steps": 5, "updates": 5, "samples": 50, "epoch": 0.5, "train_loss": 2,
    "computed": 5, "applied": 4, "discarded": 1, "waiting_s": 0.5, "test_loss": 1.5,
    "validation_accuracy": 0.25})");
}

/// The ledger of the run may be that of another shard than the first, which has applied less. Counts of two
/// shards make no ledger together.
TEST(RunMeter, EndsWithNoCountBehindThatOfAnEarlierLineAndWithThoseOfOneShard) {
  run_meter m({10, 0.1}, {});
  m.add(gaps(1, 4), shard_counts{{0}, {4}, 7, 3, 4});
  EXPECT_EQ(m.take(1s).applied, 4U);
  metrics_line known{.computed = 8, .applied = 3, .discarded = 3};
  expect_figures(m.close(known), R"({"updates": 4, "computed": 7, "applied": 4, "discarded": 3})");
  known.applied = 5;
  expect_figures(m.close(known), R"({"computed": 8, "applied": 5})");
}

TEST(IntervalClock, TellsOnceThatAnIntervalHasEnded) {
  struct question {
    std::uint64_t steps;
    instant elapsed;
    bool ended;
  };
  struct row {
    const char* counts;
    interval every;
    std::uint64_t steps_per_epoch;
    std::vector<question> asked;
  };
  const row rows[] = {
      {"steps; several at once count as one",
       {.steps = 10},
       100,
       {{9, 1h, false}, {10, 1h, true}, {19, 1h, false}, {45, 1h, true}, {49, 1h, false}, {50, 1h, true}}},
      {"time from the start of the run; late once, it is late no more",
       {.span = 1s},
       100,
       {{1000, 999ms, false}, {1000, 1700ms, true}, {1000, 1900ms, false}, {1000, 2s, true}}},
      {"epochs", {.epochs = 1}, 7, {{6, 0s, false}, {7, 0s, true}, {13, 0s, false}, {14, 0s, true}}},
      {"nothing", {}, 0, {{1'000'000, 24h, false}}}};
  for (const row& r : rows) {
    SCOPED_TRACE(r.counts);
    interval_clock c(r.every, r.steps_per_epoch);
    for (const question& q : r.asked) EXPECT_EQ(c.ended(q.steps, q.elapsed), q.ended) << q.steps;
  }
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

/// The steps of an interval are those of all workers together.
TEST(NoticePace, FollowsTheShortestIntervalAndSharesItsStepsAmongWorkers) {
  EXPECT_EQ(pace({{.span = 20ms}, {.steps = 500}, {.epochs = 2}}), (notice_pace{20ms, 120}));
  EXPECT_EQ(pace({{.steps = 50}, {.epochs = 1}}), (notice_pace{100ms, 50}));
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
