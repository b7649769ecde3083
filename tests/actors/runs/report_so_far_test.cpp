#include <mailgrad/tests/actors/runs/small_training.hpp>

#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <memory>
#include <thread>

// A run that is asked where it stands while it goes on, from threads that are no actors.

namespace mailgrad {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using testing::options_for;
using ::testing::SizeIs;
using testing::small_data;
using testing::small_model;

training_options long_run(const std::string& policy) {
  training_options o = options_for(policy, 2);
  o.epochs = 1'000'000; // until it is stopped
  return o;
}

TEST(ReportSoFar, GrowsUntilTheEndAndNeverOverstates) {
  for (const char* policy : {"async", "sync", "hogwild"}) {
    training run(small_model(), small_data(), long_run(policy));
    while (run.progress().steps < 200) run.wait_for(1ms);
    const training_report first = run.report_so_far(10s);
    EXPECT_EQ(first.ended, "running") << policy;
    EXPECT_EQ(first.why, "") << policy;
    EXPECT_GE(first.steps, 200U) << policy;
    EXPECT_THAT(first.worker_waits, SizeIs(2)) << policy;
    EXPECT_FALSE(first.staleness.empty()) << policy;
    EXPECT_GT(first.wall_seconds, 0) << policy;
    EXPECT_EQ(first.parameters_sha256, "") << policy;
    EXPECT_FALSE(first.test_accuracy) << policy;
    const training_report second = run.report_so_far(10s);
    EXPECT_GE(second.ledger.accounted_for(), first.ledger.accounted_for()) << policy;
    run.stop("enough");
    const training_report last = run.report();
    EXPECT_EQ(last.ended, "stopped") << policy;
    EXPECT_TRUE(last.ledger.balances()) << policy;
    EXPECT_GE(last.ledger.accounted_for(), second.ledger.accounted_for()) << policy;
  }
}

TEST(ReportSoFar, IsThatOfTheEndOnceTheRunHasEnded) {
  training_options o = options_for("async", 2);
  training run(small_model(), small_data(), o);
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
  const training_report first = training(small_model(), small_data(), o).report();
  o = long_run("async");
  o.resume = std::make_shared<const checkpoint>(newest_checkpoint(folder.path()).what);
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
  training run(small_model(), small_data(), long_run("async"));
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
} // namespace mailgrad
