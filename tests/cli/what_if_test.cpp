#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

// Recorded runs under other conditions, from the command line.

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::tool;

class LabWhatIf : public ::testing::Test {
protected:
  json record(const std::vector<std::string>& more, const std::string& steps = "200") const {
    std::vector<std::string> words{
        "train",   "--model", "softmax",   "--data",           MAILGRAD_SMALL_CSV, "--batch",
        "4",       "--quiet", "--record",  recording_,         "--report",         report_,
        "--steps", steps,     "--devices", "cpu:0,cpu:0,cpu:0"};
    words.insert(words.end(), more.begin(), more.end());
    tool t(words);
    EXPECT_EQ(t.code(), 0) << t.err();
    return json::parse(std::ifstream(report_));
  }
  std::vector<std::string> words(const std::vector<std::string>& more) const {
    std::vector<std::string> all{"lab", "what-if", recording_};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  json report_of(const std::vector<std::string>& more) {
    std::vector<std::string> all = words(more);
    all.insert(all.end(), {"--quiet", "--report", report_});
    tool t(all);
    EXPECT_EQ(t.code(), 0) << t.err();
    out_ = t.out();
    return json::parse(std::ifstream(report_));
  }

  const scratch_folder folder_;
  const std::string recording_ = (folder_.path() / "run.rec").string();
  const std::string report_ = (folder_.path() / "run.json").string();
  std::string out_;
};

TEST_F(LabWhatIf, KeepsTheOrderOfARunWithNothingChanged) {
  const json was = record({"--policy", "ssp:1", "--trace", (folder_.path() / "t.json").string()});
  const json is = report_of({});
  EXPECT_EQ(is["steps"], was["steps"]);
  EXPECT_EQ(is["policy"], "ssp:1");
  EXPECT_EQ(is["delays"]["law"], "as recorded");
  EXPECT_NEAR(is["staleness"]["mean"], was["staleness"]["mean"], 0.05);
  EXPECT_THAT(out_,
              AllOf(HasSubstr("the run             what if"), HasSubstr("time [s]"), HasSubstr("updates/s"),
                    HasSubstr("staleness mean / p99 / max"), HasSubstr("waiting for others [s]"),
                    HasSubstr("loss of the last steps"), HasSubstr("total variation"),
                    HasSubstr("Assumed: the durations of steps are as recorded.")));
}

TEST_F(LabWhatIf, ChangesPolicyWorkersAndSpeeds) {
  record({"--policy", "async", "--stop-when", "time_s>1000000"});
  const json is = report_of({"--policy", "sync", "--workers", "5", "--slow", "1=3", "--slow", "4=0.5"});
  EXPECT_EQ(is["policy"], "sync");
  EXPECT_EQ(is["workers"], 5);
  EXPECT_EQ(is["staleness"]["max"], 0);
  EXPECT_EQ(is["delays"]["law"], "as recorded, worker 1 times 3, worker 4 times 0.5");
  EXPECT_THAT(out_, HasSubstr("Worker 3 and those behind it take the steps of worker 0"));
  const json by_law = report_of({"--delays", "constant:2", "--policy", "sync"});
  EXPECT_EQ(by_law["wall_seconds"], 2 * 67.0) << "200 mini-batches of three workers";
}

TEST_F(LabWhatIf, KeepsItsColumnsApartHoweverLongAPolicyIs) {
  record({"--policy", "async, ssp:1@60, sync@120"});
  report_of({});
  EXPECT_THAT(out_, HasSubstr("\npolicy                      async, ssp:1@60, sync@120  async, ssp:1@"));
}

/// Nobody waits under async, so its steps begin in virtual time when they began in the run.
TEST_F(LabWhatIf, WritesItsDurationsAsATrace) {
  record({"--policy", "async"});
  const std::string trace = (folder_.path() / "steps.csv").string();
  const json as_recorded = report_of({"--durations", trace});
  const json by_trace = report_of({"--delays", "trace:" + trace});
  EXPECT_EQ(by_trace["delays"]["law"], "trace:" + trace);
  EXPECT_EQ(by_trace["staleness"], as_recorded["staleness"]);
  EXPECT_EQ(by_trace["wall_seconds"], as_recorded["wall_seconds"]);
  EXPECT_EQ(by_trace["parameters_sha256"], as_recorded["parameters_sha256"]);
}

TEST_F(LabWhatIf, SaysInOneLineWhatMakesNoSense) {
  record({}, "40");
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"--policy", "asink"}, "policy 'asink' is unknown"},
      {{"--policy", "backup:3"}, "policy 'backup:3'"},
      {{"--slow", "3=2"}, "there is no worker 3 of 3"},
      {{"--slow", "1=0"}, "it must be above 0"},
      {{"--slow", "1"}, "write the number of a worker, from 0, and a factor, as 3=10"},
      {{"--workers", "0"}, "--workers"},
      {{"--delays", "gama"}, "did you mean 'gamma'?"},
      {{"--data", "/nowhere"}, "/nowhere"},
      {{"--report", recording_}, "--report and the recording both name"},
      {{"--durations", recording_}, "is another file of this command"},
  };
  for (const auto& [more, why] : wrong) {
    tool t(words(more));
    EXPECT_EQ(t.code(), 2) << why;
    EXPECT_THAT(t.err(), HasSubstr(why));
    EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
    EXPECT_EQ(t.out(), "");
  }
}

TEST_F(LabWhatIf, RefusesTheRecordingOfAKilledRun) {
  tool killed({"train", "--model", "softmax", "--data", MAILGRAD_SMALL_CSV, "--batch", "4", "--record",
               recording_, "--epochs", "1000000000"});
  ASSERT_TRUE(killed.says("step ")) << killed.err();
  killed.signal(SIGKILL);
  killed.code();
  tool t({"lab", "what-if", recording_ + ".partial"});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), HasSubstr("does not tell how long steps took: it was not completed"));
  EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
}

} // namespace
} // namespace mailgrad
