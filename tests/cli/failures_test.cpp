#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

// Runs of the tool that go wrong: the report is there, says why, and the shell hears of it.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::tool;

/// A short run, by way of a shell, after `before` and with `after` behind its words.
int exit_code_of_shell(const std::string& before, const std::string& words, const std::string& after) {
  const std::string run =
      before +
      " '" MAILGRAD_TOOL "' train --model softmax --optimizer sgd --devices cpu:0 --data '" MAILGRAD_SMALL_CSV
      "' --batch 4 " +
      words + " >/dev/null " + after;
  const int status = std::system(run.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(FailedRun, DoesNotTellItsRecordingWhatAClosedStreamWouldHear) {
  const scratch_folder folder;
  const std::string record = (folder.path() / "run.rec").string();
  EXPECT_EQ(exit_code_of_shell("", "--steps 20 --record '" + record + "'", "2>&-"), 0);
  EXPECT_EQ(tool({"replay", record}).code(), 0);
}

TEST(FailedRun, KeepsItsReportWhereItsRecordingMayNotGrow) {
  const scratch_folder folder;
  const std::string report = (folder.path() / "run.json").string();
  const std::string record = (folder.path() / "run.rec").string();
  EXPECT_EQ(exit_code_of_shell("ulimit -f 64;",
                               "--steps 6000 --record '" + record + "' --report '" + report + "'",
                               "2>/dev/null"),
            1);
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(report))["steps"], 6000);
}

TEST(FailedRun, GoesOnWhenNobodyReadsItsWords) {
  const scratch_folder folder;
  const std::string pipe = (folder.path() / "pipe").string();
  const std::string report = (folder.path() / "run.json").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string without_reader = "exec 3<>'" + pipe + "' 4>'" + pipe + "' 3>&-;";
  EXPECT_EQ(exit_code_of_shell(without_reader, "--steps 20 --report '" + report + "'", "2>&4"), 0);
  EXPECT_EQ(exit_code_of_shell(without_reader, "--steps 20", "1>&4 2>&4"), 0);
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(report))["steps"], 20);
}

TEST(FailedRun, RefusesAPipeForItsRecording) {
  const scratch_folder folder;
  const std::string pipe = (folder.path() / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  tool t({"train", "--model", "softmax", "--data", MAILGRAD_SMALL_CSV, "--record", pipe});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), HasSubstr("--record: '" + pipe + "' is a pipe"));
}

TEST(FailedRun, SaysThatItsReportWaitsForAReader) {
  const scratch_folder folder;
  const std::string pipe = (folder.path() / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  tool t({"train", "--model", "softmax", "--data", MAILGRAD_SMALL_CSV, "--batch", "4", "--steps", "8",
          "--report", pipe});
  ASSERT_TRUE(t.says("waiting until somebody reads it")) << t.err();
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(pipe))["steps"], 8);
  EXPECT_EQ(t.code(), 0) << t.err();
}

TEST(FailedRun, SaysThatHelpCouldNotBeWritten) {
  tool t({"--help"}, "/dev/full");
  EXPECT_EQ(t.code(), 1);
  EXPECT_THAT(t.err(), HasSubstr("standard output cannot be written"));
}

TEST(FailedRun, NamesAFolderInThePlaceOfAModel) {
  tool t({"train", "--model", ".", "--data", MAILGRAD_SMALL_CSV});
  EXPECT_EQ(t.code(), 2);
  EXPECT_EQ(t.err(), "mailgrad: model '.' is a folder; name a JSON file of layers\n");
}

TEST(FailedRun, LeavesAReportThatNamesTheWeightWhichTheLastUpdateSpoiled) {
  const scratch_folder folder;
  const std::string report = (folder.path() / "run.json").string();
  tool t({"train", "--model", "mlp:hidden=8", "--data", MAILGRAD_SMALL_CSV, "--batch", "4", "--steps", "1",
          "--lr", "1e30", "--l2", "1e30", "--report", report});
  EXPECT_EQ(t.code(), 5);
  EXPECT_THAT(t.err(), AllOf(HasSubstr("updates by rule 'sgd'"), Not(HasSubstr("testing on"))));
  const auto r = nlohmann::json::parse(std::ifstream(report));
  EXPECT_EQ(r["ended"], "diverged");
  EXPECT_THAT(r["why"].get<std::string>(),
              AllOf(HasSubstr("on shard 0 is "), HasSubstr("after 1 updates by rule 'sgd'")));
  EXPECT_TRUE(r["test_accuracy"].is_null());
}

} // namespace
} // namespace mailgrad
