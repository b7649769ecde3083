#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/data/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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
using testing::tool;

/// A short run, by way of a shell, after `before` and with `after` behind its words.
int exit_code_of_shell(const std::string& before, const std::string& words, const std::string& after) {
  const std::string run =
      before + " '" MAILGRAD_TOOL "' train --model softmax --data '" MAILGRAD_SMALL_CSV "' --batch 4 " +
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
  EXPECT_EQ(t.code(), 1);
  EXPECT_THAT(t.err(), HasSubstr("updates by rule 'sgd'"));
  const auto r = nlohmann::json::parse(std::ifstream(report));
  EXPECT_EQ(r["ended"], "diverged");
  EXPECT_THAT(r["why"].get<std::string>(),
              AllOf(HasSubstr("on shard 0 is "), HasSubstr("after 1 updates by rule 'sgd'")));
  EXPECT_TRUE(r["test_accuracy"].is_null());
}

} // namespace
} // namespace mailgrad
