#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/data/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <vector>

// Runs of the tool that go wrong: the report is there, says why, and the shell hears of it.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::tool;

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
