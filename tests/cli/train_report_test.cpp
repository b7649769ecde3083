#include <mailgrad/tests/cli/train_command_fixture.hpp>

#include <gmock/gmock.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

// The report of a run of the tool: what it says, and where it is written.

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::tool;
using testing::TrainCommand;

TEST_F(TrainCommand, WritesAReportThatBalancesInEveryPolicy) {
  for (const char* policy : {"async", "sync", "hogwild"}) {
    tool t(train({"--policy", policy, "--devices", "cpu:0,cpu:0", "--epochs", "5", "--shards", "1"}));
    ASSERT_EQ(t.code(), 0) << t.err();
    const json r = report();
    EXPECT_EQ(r["policy"], policy);
    EXPECT_EQ(r["ended"], "completed");
    EXPECT_EQ(r["devices"], json({"cpu:0", "cpu:0"}));
    EXPECT_GT(r["steps"], 0);
    EXPECT_EQ(r["ledger"]["produced"], r["steps"]);
    EXPECT_EQ(fates(r["ledger"]), r["ledger"]["produced"]);
    EXPECT_EQ(r["parameters_sha256"].get<std::string>().size(), 64U);
    EXPECT_TRUE(r["test_accuracy"].is_number());
    EXPECT_TRUE(r["test_rmse"].is_null());
    EXPECT_TRUE(r["final_loss"].is_number());
    EXPECT_EQ(r["seed"], 1);
    EXPECT_THAT(files(), ::testing::ElementsAre("run.json")) << "nothing is left beside the report";
  }
}

TEST_F(TrainCommand, SaysWhatItRanOnAndWhen) {
  tool t(train({"--epochs", "2", "--devices", "cpu:0,cpu:0", "--policy", "sync"}));
  ASSERT_EQ(t.code(), 0) << t.err();
  const json r = report();
  const std::string version = tool({"--version"}).out();
  for (const char* field : {"version", "commit", "compiler"})
    EXPECT_THAT(version, HasSubstr(r[field].get<std::string>())) << field;
  EXPECT_THAT(r["date"].get<std::string>(), ::testing::MatchesRegex("20..-..-..T..:..:..Z"));
  char host[256];
  ASSERT_EQ(gethostname(host, sizeof host), 0);
  EXPECT_EQ(r["host"], host);
  EXPECT_THAT(r["processor"].get<std::string>(), Not(IsEmpty()));
  EXPECT_EQ(r["epochs"], 2.0);
  EXPECT_EQ(r["wait_seconds"]["per_worker"].size(), 2U);
  double barrier = 0;
  for (const json& w : r["wait_seconds"]["per_worker"]) barrier += w["barrier"].get<double>();
  EXPECT_DOUBLE_EQ(barrier, r["wait_seconds"]["barrier"]);
}

TEST_F(TrainCommand, TellsItsOptionsInTheWordsThatWereGiven) {
  tool t(train({"--epochs", "2", "--keep-weights", "best"}));
  ASSERT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(report()["command"], ::testing::Contains("--keep-weights=best"));
}

TEST_F(TrainCommand, RefusesAReportThatCannotBeWrittenBeforeItTrains) {
  std::filesystem::create_directory(report_); // a folder where the file should be
  for (const std::string& path : {std::string("/no/such/folder/run.json"), report_}) {
    tool t({"train", "--model", "softmax", "--data", MAILGRAD_SMALL_CSV, "--report", path});
    EXPECT_EQ(t.code(), 2);
    EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
    EXPECT_THAT(t.err(), HasSubstr(path));
    EXPECT_THAT(t.out(), IsEmpty());
  }
}

TEST_F(TrainCommand, WritesIntoADeviceAndDoesNotReplaceIt) {
  std::vector<std::string> words = train({"--epochs", "1"});
  *std::ranges::find(words, report_) = "/dev/full";
  tool t(words);
  EXPECT_EQ(t.code(), 1);
  EXPECT_THAT(t.err(), HasSubstr("report '/dev/full' cannot be written: No space left"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST_F(TrainCommand, ReplacesTheFileBehindALinkAndNotTheLink) {
  const std::filesystem::path file = folder_.path() / "real.json";
  std::ofstream(file) << "old";
  std::filesystem::create_symlink(file, report_);
  tool t(train({"--epochs", "1"}));
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_TRUE(std::filesystem::is_symlink(report_));
  EXPECT_EQ(report()["ended"], "completed");
}

TEST_F(TrainCommand, SwitchesAndCuresAndTellsInItsReport) {
  tool t(
      train({"--policy", "async, sync@6", "--cure", "inverse", "--devices", "cpu:0,cpu:0", "--epochs", "2"}));
  EXPECT_EQ(t.code(), 0) << t.err();
  const json r = report();
  EXPECT_EQ(r["switches"][0]["to"], "sync");
  EXPECT_EQ(r["cure"]["name"], "inverse");
  EXPECT_GT(r["updates"], 0);
  EXPECT_THAT(t.out(),
              AllOf(HasSubstr("switched      from async to sync"), HasSubstr("cure          inverse")));
}

TEST_F(TrainCommand, ReplacesAnOldReport) {
  folder_.write("run.json", "an old report, longer than it need be\n");
  tool t(train({"--steps", "5", "--quiet"}));
  ASSERT_EQ(t.code(), 0);
  EXPECT_EQ(report()["steps"], 5);
}

TEST_F(TrainCommand, KeepsAnOldReportOfARunThatDoesNotBegin) {
  folder_.write("run.json", "{}");
  tool t({"train", "--data", "/no/such/data", "--report", report_});
  EXPECT_EQ(t.code(), 2);
  EXPECT_EQ(report(), json::object());
  EXPECT_THAT(files(), ::testing::ElementsAre("run.json"));
}

} // namespace
} // namespace mailgrad
