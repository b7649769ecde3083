#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/engine/account/event_reader.hpp>
#include <mailgrad/tests/engine/ticking_time.hpp>

#include <nlohmann/json.hpp>

#include <fstream>
#include <map>
#include <stdexcept>
#include <thread>

namespace mailgrad::testing {
namespace {

using ::testing::IsEmpty, ::testing::SizeIs, ::testing::StartsWith;
using namespace std::chrono_literals;

class MeasuredRun : public ::testing::Test {
protected:
  std::string in_folder(const char* name) const { return (folder_.path() / name).string(); }
  training_options measured(const std::string& policy, std::uint32_t workers,
                            const small_options& s = {.metrics_every = {.steps = 1}}) const {
    training_options o = options_for(policy, workers, s);
    o.metrics = in_folder("m.jsonl");
    return o;
  }
  std::vector<std::string> lines(const char* name = "m.jsonl") const {
    std::ifstream in(in_folder(name));
    std::vector<std::string> all;
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }

  const scratch_folder folder_;
};

TEST_F(MeasuredRun, EndsItsLinesWithTheReport) {
  for (const char* policy : {"async", "sync", "ssp:1", "k-batch-sync:1", "hogwild", "async, hogwild@20"}) {
    SCOPED_TRACE(policy);
    const training_report r = trained(measured(policy, 2));
    ASSERT_FALSE(lines().empty());
    const auto last = nlohmann::json::parse(lines().back());
    EXPECT_EQ(last["steps"], r.steps);
    EXPECT_EQ(last["samples"], r.samples);
    EXPECT_EQ(last["updates"], r.updates);
    EXPECT_EQ(last["computed"], r.ledger.produced);
    EXPECT_EQ(last["applied"], r.ledger.applied);
    EXPECT_EQ(last["merged"], r.ledger.merged);
    EXPECT_EQ(last["discarded"], r.ledger.discarded_in_all());
    EXPECT_EQ(last["test_accuracy"], r.test_accuracy.value());
    EXPECT_GE(last["time_s"], r.wall_seconds);
    ASSERT_FALSE(r.curve.empty());
    EXPECT_EQ(to_json(r.curve.back()), lines().back());
  }
}

TEST_F(MeasuredRun, TellsEverySampleOfAShortRunInItsLoss) {
  const training_report r = trained(measured("sync", 2, {.metrics_every = {.span = 1h}}));
  ASSERT_THAT(r.curve, SizeIs(1)) << "the last line alone";
  EXPECT_GT(r.curve[0].train_loss.value(), 0);
  EXPECT_EQ(r.curve[0].staleness_mean, 0) << "workers in step are never stale";
}

/// Under this clock ten thousand steps take about a tenth of a second.
TEST_F(MeasuredRun, MakesALineEachSoManyStepsHoweverFastTheyAre) {
  const training_options o = measured("async", 1, {.steps = 10'000, .metrics_every = {.steps = 1000}});
  training run(small_model(), small_data(), o, std::make_shared<ticking_time>());
  run.report();
  EXPECT_THAT(lines(), SizeIs(::testing::Ge(10U)));
}

TEST_F(MeasuredRun, EndsWithTheSameWeightsAsOneThatIsNot) {
  for (const char* policy : {"sync", "async"}) {
    const std::uint32_t workers = std::string(policy) == "sync" ? 2 : 1;
    training_options o = options_for(policy, workers, {.shards = 2});
    const std::string plain = trained(o).parameters_sha256;
    o.metrics = in_folder("m.csv");
    o.metrics_every = {.steps = 1};
    o.evaluate_every = {.steps = 1};
    EXPECT_EQ(trained(o).parameters_sha256, plain) << policy;
    EXPECT_EQ(lines("m.csv")[0], metrics_csv_header());
  }
}

TEST_F(MeasuredRun, ReplaysWithTheSameWeights) {
  training_options o = options_for("async", 2, {.shards = 2});
  o.record = in_folder("run.rec");
  const std::string recorded = trained(o).parameters_sha256;
  o = replay_of(o);
  o.metrics_every = o.evaluate_every = {.steps = 1};
  EXPECT_EQ(trained(o).parameters_sha256, recorded);
}

TEST_F(MeasuredRun, WritesTheSameEventsForTensorBoard) {
  training_options o = measured("async", 2);
  o.tensorboard = in_folder("board");
  const training_report r = trained(o);
  ASSERT_THAT(event_files(o.tensorboard), SizeIs(1));
  const auto events = events_in(event_files(o.tensorboard)[0]);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::size_t drawn = 0;
  double gaps = 0;
  for (const read_event& e : events) {
    EXPECT_NEAR(e.wall_time, now, 3600);
    if (e.scalars.contains("progress/epoch")) ++drawn;
    if (e.histograms.contains("staleness/gaps")) gaps += e.histograms.at("staleness/gaps").num;
  }
  EXPECT_EQ(drawn, lines().size());
  EXPECT_EQ(gaps, static_cast<double>(r.staleness.total()));
  EXPECT_EQ(events.back().step, r.steps);
}

TEST_F(MeasuredRun, TakesTheDateFromItsClock) {
  training_options o = measured("async", 1);
  o.tensorboard = in_folder("board");
  training run(small_model(), small_data(), o, std::make_shared<ticking_time>());
  run.report();
  const auto files = event_files(o.tensorboard);
  ASSERT_THAT(files, SizeIs(1));
  EXPECT_THAT(files[0].filename().string(), StartsWith("events.out.tfevents.0000000000."));
}

TEST_F(MeasuredRun, IsRefusedWhereItsFileCannotBe) {
  training_options o = options_for("async", 1);
  o.metrics = "/no/such/folder/m.jsonl";
  EXPECT_THROW(training(small_model(), small_data(), o), std::system_error);
  o.metrics.clear();
  o.tensorboard = "/dev/null";
  EXPECT_THROW(training(small_model(), small_data(), o), std::system_error);
}

TEST_F(MeasuredRun, GoesOnWhenTheDiskIsFull) {
  training_options o = options_for("async", 1);
  o.metrics = "/dev/full";
  training run(small_model(), small_data(), o);
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "completed");
  EXPECT_FALSE(r.curve.empty());
  EXPECT_THAT(run.metrics_failure(), StartsWith("metrics '/dev/full' end early"));
}

TEST_F(MeasuredRun, IsTestedWhileItGoesOn) {
  for (const char* policy : {"async", "sync", "hogwild", "async, hogwild@40"}) {
    training run(
        small_model(), small_data(),
        endless(policy, 2, {.shards = 2, .metrics_every = {.span = 1h}, .evaluate_every = {.steps = 20}}));
    run.observe([](const run_event& e) {
      const auto* x = std::get_if<evaluation_made>(&e);
      EXPECT_TRUE(!x || (x->steps >= 20 && x->loss > 0 && x->accuracy.value() > 0.2));
    });
    stop_at<evaluation_made>(run, 3, "tested enough");
    const training_report r = run.report();
    EXPECT_EQ(r.why, "tested enough") << policy;
    EXPECT_GE(r.evaluations.count, 3U);
    EXPECT_GT(r.evaluations.seconds, 0);
    EXPECT_GE(r.curve.size(), 4U) << "a line each test, and the last";
    EXPECT_TRUE(r.curve[0].test_accuracy);
  }
}

/// The run goes on, and judges nothing by them.
TEST_F(MeasuredRun, CountsTestsThatAreLeftOut) {
  training_options o = endless("async", 2, {.evaluate_every = {.steps = 20}, .patience = 1});
  const model_function trained_only = [](graph& g, const model_request& r) {
    if (r.purpose == phase::evaluation) throw std::runtime_error("it cannot be tested");
    return small_model()(g, r);
  };
  training run(trained_only, small_data(), o);
  stop_at<test_left_out>(run, 3, "seen enough");
  const training_report r = run.report();
  EXPECT_THAT(r.why, StartsWith("seen enough"));
  EXPECT_EQ(r.evaluations.count, 0U);
  EXPECT_GE(r.evaluations.left_out, 3U);
  EXPECT_EQ(r.evaluations.why_left_out, "it cannot be tested");
}

TEST_F(MeasuredRun, RefusesTestsWithoutSamples) {
  auto data = std::make_shared<data_split>(*small_data());
  data->test = {};
  training_options o = options_for("async", 1, {.evaluate_every = {.epochs = 1}});
  EXPECT_THROW(training(small_model(), data, o), std::invalid_argument);
}

TEST_F(MeasuredRun, TellsItsSwitches) {
  training run(small_model(), small_data(), options_for("async, sync@20", 2));
  std::vector<policy_switch> switches;
  run.observe([&](const run_event& e) {
    if (const auto* x = std::get_if<policy_switch>(&e)) switches.push_back(*x);
  });
  const training_report r = run.report();
  ASSERT_THAT(switches, SizeIs(1));
  EXPECT_EQ(switches[0].to, "sync");
  EXPECT_EQ(switches[0].step, r.switches[0].step);
  EXPECT_EQ(r.policy, "async, sync@20");
  EXPECT_EQ(r.present_policy, "sync");
  EXPECT_GT(r.switches[0].time_s.value(), 0);
  EXPECT_LE(r.switches[0].time_s.value(), r.wall_seconds);
}

TEST_F(MeasuredRun, NamesThePolicyOfEachMomentInTensorBoard) {
  training_options o = measured("async, sync@20", 2);
  o.tensorboard = in_folder("board");
  const training_report r = trained(o);
  std::vector<std::string> policies;
  std::vector<float> switches;
  std::map<std::string, std::string> options;
  for (const read_event& e : events_in(event_files(o.tensorboard)[0])) {
    if (!e.options.empty()) options = e.options;
    for (const auto& [tag, text] : e.texts) policies.push_back(text);
    if (e.scalars.contains("policy/switches")) switches.push_back(e.scalars.at("policy/switches"));
  }
  ASSERT_THAT(policies, SizeIs(2));
  EXPECT_EQ(policies[0], "`async`");
  EXPECT_THAT(policies[1],
              StartsWith("`sync`, after `async` until step " + std::to_string(r.switches[0].step)));
  EXPECT_THAT(switches, ::testing::ElementsAre(0, 1));
  EXPECT_EQ(options["policy"], "async, sync@20");
  EXPECT_EQ(options["workers"], "2.000000");
}

TEST_F(MeasuredRun, CanBeSwitchedAndStoppedByWhoeverObservesIt) {
  training run(small_model(), small_data(), endless("async", 2, {.metrics_every = {.steps = 1}}));
  stop_at<policy_switch>(run, 1, "switched");
  std::atomic<bool> asked{false};
  run.observe([&](const run_event& e) {
    if (std::holds_alternative<metrics_line>(e) && !asked.exchange(true))
      run.switch_policy("sync", "observed");
  });
  const training_report r = run.report();
  EXPECT_EQ(r.why, "switched");
  ASSERT_THAT(r.switches, SizeIs(1));
  EXPECT_EQ(r.switches[0].why, "observed");
}

TEST_F(MeasuredRun, CallsAnObserverThatThrowsNoMore) {
  training run(small_model(), small_data(), options_for("async", 1));
  int calls = 0;
  run.observe([&](const run_event&) {
    ++calls;
    throw std::runtime_error("no paper left");
  });
  int others = 0;
  run.observe([&](const run_event&) { ++others; });
  const training_report r = run.report();
  EXPECT_EQ(r.ended, "completed");
  EXPECT_EQ(calls, 1);
  EXPECT_GE(others, 1);
  EXPECT_EQ(run.metrics_failure(), "an observer of the run threw: no paper left");
}

TEST_F(MeasuredRun, EndsWithoutAReport) {
  training run(small_model(), small_data(), endless("async", 2, {.evaluate_every = {.steps = 1}}));
  while (run.progress().steps == 0) run.wait_for(5ms);
}

// ---- a run that is asked where it stands while it goes on, from threads that are no actors

TEST(ReportSoFar, GrowsUntilTheEndAndNeverOverstates) {
  for (const char* policy : {"async", "sync", "hogwild"}) {
    SCOPED_TRACE(policy);
    training run(small_model(), small_data(), endless(policy));
    while (run.progress().steps < 200) run.wait_for(1ms);
    const training_report first = run.report_so_far(10s);
    EXPECT_EQ(first.ended, "running");
    EXPECT_EQ(first.why, "");
    EXPECT_GE(first.steps, 200U);
    EXPECT_THAT(first.worker_waits, SizeIs(2));
    EXPECT_FALSE(first.staleness.empty());
    EXPECT_GT(first.wall_seconds, 0);
    EXPECT_EQ(first.parameters_sha256, "");
    EXPECT_FALSE(first.test_accuracy);
    const training_report second = run.report_so_far(10s);
    EXPECT_GE(second.ledger.accounted_for(), first.ledger.accounted_for());
    run.stop("enough");
    const training_report last = run.report();
    EXPECT_EQ(last.ended, "stopped");
    EXPECT_TRUE(last.ledger.balances());
    EXPECT_GE(last.ledger.accounted_for(), second.ledger.accounted_for());
  }
}

TEST(ReportSoFar, IsThatOfTheEndOnceTheRunHasEnded) {
  training run(small_model(), small_data(), options_for("async", 2));
  while (!run.wait_for(100ms)) {
  }
  const training_report so_far = run.report_so_far(0ms);
  const training_report last = run.report();
  EXPECT_EQ(so_far.ended, "completed");
  EXPECT_EQ(so_far.ledger, last.ledger);
  EXPECT_EQ(so_far.wall_seconds, last.wall_seconds);
  EXPECT_EQ(so_far.epochs, last.epochs);
}

/// Nobody has told anything yet in this process.
TEST(ReportSoFar, CountsTheStepsOfEarlierProcesses) {
  const scratch_folder folder;
  training_options o = options_for("async", 2);
  o.checkpoints.folder = folder.path().string();
  const training_report first = trained(o);
  o = endless("async");
  o.resume = newest_in(folder.path());
  training run(small_model(), small_data(), o);
  const training_report so_far = run.report_so_far(0ms);
  EXPECT_GE(so_far.steps, first.steps);
  EXPECT_GE(so_far.samples, first.samples);
  run.stop("enough");
  run.report();
}

TEST(ReportSoFar, WritesWhatNobodyHasToldAsUnknown) {
  training_report r;
  r.ended = "running";
  const auto j = nlohmann::json::parse(to_json(r));
  EXPECT_TRUE(j["staleness"]["mean"].is_null());
  EXPECT_TRUE(j["final_loss"].is_null());
  EXPECT_TRUE(j["time_split"]["compute"].is_null());
  EXPECT_THAT(j["wait_seconds"]["per_worker"], IsEmpty());
}

TEST(ReportSoFar, AnswersSeveralThreadsAtOnce) {
  training run(small_model(), small_data(), endless("async"));
  std::vector<std::jthread> askers;
  for (int i = 0; i < 4; ++i)
    askers.emplace_back([&run] {
      std::uint64_t steps = 0;
      for (int n = 0; n < 25; ++n) {
        const training_report r = run.report_so_far(10s);
        EXPECT_GE(r.steps, steps);
        steps = r.steps;
        static_cast<void>(run.list_wait_reasons(0ms));
      }
    });
  askers.clear();
  run.stop("enough");
  EXPECT_TRUE(run.report().ledger.balances());
}

} // namespace
} // namespace mailgrad::testing
