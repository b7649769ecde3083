#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/engine/account/event_reader.hpp>
#include <mailgrad/tests/engine/ticking_time.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/record/recording.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

// What is measured while a run goes on, and that it changes nothing.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::options_for;
using ::testing::SizeIs;
using testing::small_data;
using testing::small_model;
using ::testing::StartsWith;
using testing::trained;

class MeasuredRun : public ::testing::Test {
protected:
  training_options measured(const std::string& policy, std::uint32_t workers,
                            const std::string& name = "m.jsonl") {
    training_options o = options_for(policy, workers);
    o.metrics = (folder_.path() / name).string();
    o.metrics_every = {.steps = 1};
    return o;
  }
  std::vector<std::string> lines(const std::string& name = "m.jsonl") const {
    std::ifstream in(folder_.path() / name);
    std::vector<std::string> all;
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }

  const scratch_folder folder_;
};

TEST_F(MeasuredRun, EndsItsLinesWithTheReport) {
  for (const char* policy : {"async", "sync", "ssp:1", "k-batch-sync:1", "hogwild", "async, hogwild@20"}) {
    const training_report r = trained(measured(policy, 2));
    ASSERT_FALSE(lines().empty()) << policy;
    const auto last = nlohmann::json::parse(lines().back());
    EXPECT_EQ(last["steps"], r.steps) << policy;
    EXPECT_EQ(last["samples"], r.samples) << policy;
    EXPECT_EQ(last["updates"], r.updates) << policy;
    EXPECT_EQ(last["computed"], r.ledger.produced) << policy;
    EXPECT_EQ(last["applied"], r.ledger.applied) << policy;
    EXPECT_EQ(last["merged"], r.ledger.merged) << policy;
    EXPECT_EQ(last["discarded"], r.ledger.discarded_in_all()) << policy;
    EXPECT_EQ(last["test_accuracy"], r.test_accuracy.value()) << policy;
    EXPECT_GE(last["time_s"], r.wall_seconds) << policy;
    ASSERT_FALSE(r.curve.empty()) << policy;
    EXPECT_EQ(to_json(r.curve.back()), lines().back()) << policy;
  }
}

TEST_F(MeasuredRun, TellsEverySampleOfAShortRunInItsLoss) {
  training_options o = measured("sync", 2);
  o.metrics_every = {.span = std::chrono::hours{1}};
  const training_report r = trained(o);
  ASSERT_THAT(r.curve, SizeIs(1)) << "the last line alone";
  ASSERT_TRUE(r.curve[0].train_loss);
  EXPECT_GT(*r.curve[0].train_loss, 0);
  EXPECT_EQ(r.curve[0].staleness_mean, 0) << "workers in step are never stale";
}

/// Under this clock ten thousand steps take about a tenth of a second.
TEST_F(MeasuredRun, MakesALineEachSoManyStepsHoweverFastTheyAre) {
  training_options o = measured("async", 1);
  o.steps = 10'000;
  o.metrics_every = {.steps = 1000};
  training run(small_model(), small_data(), o, std::make_shared<testing::ticking_time>());
  run.report();
  EXPECT_THAT(lines(), SizeIs(::testing::Ge(10U)));
}

TEST_F(MeasuredRun, EndsWithTheSameWeightsAsOneThatIsNot) {
  for (const char* policy : {"sync", "async"}) {
    const std::uint32_t workers = std::string(policy) == "sync" ? 2 : 1;
    training_options o = options_for(policy, workers);
    o.shards = 2;
    const std::string plain = trained(o).parameters_sha256;
    o.metrics = (folder_.path() / "m.csv").string();
    o.metrics_every = {.steps = 1};
    o.evaluate_every = {.steps = 1};
    EXPECT_EQ(trained(o).parameters_sha256, plain) << policy;
    EXPECT_EQ(lines("m.csv")[0], metrics_csv_header());
  }
}

TEST_F(MeasuredRun, ReplaysWithTheSameWeights) {
  training_options o = options_for("async", 2);
  o.shards = 2;
  o.record = (folder_.path() / "run.rec").string();
  const std::string recorded = trained(o).parameters_sha256;
  o.replay = std::make_shared<const recording>(read_recording(o.record));
  o.record.clear();
  o.metrics_every = o.evaluate_every = {.steps = 1};
  EXPECT_EQ(trained(o).parameters_sha256, recorded);
}

TEST_F(MeasuredRun, WritesTheSameEventsForTensorBoard) {
  training_options o = measured("async", 2);
  o.tensorboard = (folder_.path() / "board").string();
  const training_report r = trained(o);
  ASSERT_THAT(testing::event_files(o.tensorboard), SizeIs(1));
  const auto events = testing::events_in(testing::event_files(o.tensorboard)[0]);
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::size_t drawn = 0;
  double gaps = 0;
  for (const testing::read_event& e : events) {
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
  o.tensorboard = (folder_.path() / "board").string();
  training run(small_model(), small_data(), o, std::make_shared<testing::ticking_time>());
  run.report();
  const auto files = testing::event_files(o.tensorboard);
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
    training_options o = options_for(policy, 2);
    o.shards = 2;
    o.epochs = 1'000'000'000;
    o.metrics_every = {.span = std::chrono::hours{1}};
    o.evaluate_every = {.steps = 20};
    training run(small_model(), small_data(), o);
    std::atomic<int> tests{0};
    run.observe([&](const run_event& e) {
      if (const auto* x = std::get_if<evaluation_made>(&e)) {
        EXPECT_GE(x->steps, 20U);
        EXPECT_GT(x->loss, 0);
        EXPECT_GT(x->accuracy.value(), 0.2);
        if (++tests == 3) run.stop("tested enough");
      }
    });
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
  training_options o = options_for("async", 2);
  o.epochs = 1'000'000'000;
  o.evaluate_every = {.steps = 20};
  o.patience = 1;
  const model_function trained_only = [](graph& g, const model_request& r) {
    if (r.purpose == phase::evaluation) throw std::runtime_error("it cannot be tested");
    return small_model()(g, r);
  };
  training run(trained_only, small_data(), o);
  std::atomic<int> left{0};
  run.observe([&](const run_event& e) {
    if (std::holds_alternative<test_left_out>(e) && ++left == 3) run.stop("seen enough");
  });
  const training_report r = run.report();
  EXPECT_THAT(r.why, StartsWith("seen enough"));
  EXPECT_EQ(r.evaluations.count, 0U);
  EXPECT_GE(r.evaluations.left_out, 3U);
  EXPECT_EQ(r.evaluations.why_left_out, "it cannot be tested");
}

TEST_F(MeasuredRun, RefusesTestsWithoutSamples) {
  auto data = std::make_shared<data_split>(*small_data());
  data->test = {};
  training_options o = options_for("async", 1);
  o.evaluate_every = {.epochs = 1};
  EXPECT_THROW(training(small_model(), data, o), std::invalid_argument);
}

TEST_F(MeasuredRun, TellsItsSwitches) {
  training_options o = options_for("async, sync@20", 2);
  training run(small_model(), small_data(), o);
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
  o.tensorboard = (folder_.path() / "board").string();
  const training_report r = trained(o);
  std::vector<std::string> policies;
  std::vector<float> switches;
  std::map<std::string, std::string> options;
  for (const testing::read_event& e : testing::events_in(testing::event_files(o.tensorboard)[0])) {
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
  training_options o = options_for("async", 2);
  o.epochs = 1'000'000'000;
  o.metrics_every = {.steps = 1};
  training run(small_model(), small_data(), o);
  std::atomic<bool> asked{false};
  run.observe([&](const run_event& e) {
    if (std::holds_alternative<metrics_line>(e) && !asked.exchange(true))
      run.switch_policy("sync", "observed");
    if (std::holds_alternative<policy_switch>(e)) run.stop("switched");
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
  training_options o = options_for("async", 2);
  o.epochs = 1'000'000'000;
  o.evaluate_every = {.steps = 1};
  training run(small_model(), small_data(), o);
  while (run.progress().steps == 0) run.wait_for(std::chrono::milliseconds{5});
}

} // namespace
} // namespace mailgrad
