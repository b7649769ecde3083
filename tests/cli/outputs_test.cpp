#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/data/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

// What a run of the tool leaves behind beside its report.

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using testing::tool;

class Outputs : public ::testing::Test {
protected:
  static std::vector<std::string> train(const std::vector<std::string>& words) {
    std::vector<std::string> all{"train", "--model", "softmax", "--data", MAILGRAD_SMALL_CSV, "--batch", "4"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  std::string path(const char* name) const { return (folder_.path() / name).string(); }

  const scratch_folder folder_;
};

TEST_F(Outputs, CountEveryAppliedGradientInTheStalenessHistogram) {
  for (const char* policy : {"async", "hogwild"}) {
    tool t(train({"--policy", policy, "--devices", "cpu:0,cpu:0", "--steps", "40", "--shards", "2",
                  "--staleness-csv", path("gaps.csv"), "--report", path("run.json")}));
    ASSERT_EQ(t.code(), 0) << t.err();
    std::ifstream file(path("gaps.csv"));
    std::string line;
    std::getline(file, line);
    EXPECT_EQ(line, "shard,worker,gap,count");
    std::map<std::string, std::uint64_t> by_shard;
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::string shard, worker, gap, count;
      std::getline(fields, shard, ',');
      std::getline(fields, worker, ',');
      std::getline(fields, gap, ',');
      std::getline(fields, count, ',');
      by_shard[shard] += std::stoull(count);
    }
    if (std::string(policy) == "hogwild")
      EXPECT_THAT(by_shard, ::testing::ElementsAre(::testing::Pair("", 40)));
    else
      EXPECT_THAT(by_shard, ::testing::ElementsAre(::testing::Pair("0", 40), ::testing::Pair("1", 40)));
  }
}

TEST_F(Outputs, TellOfEachWorkerIfThereAreSeveral) {
  EXPECT_THAT(tool(train({"--steps", "8", "--devices", "cpu:0,cpu:0"})).out(), HasSubstr("  worker 1    "));
  EXPECT_THAT(tool(train({"--steps", "8"})).out(), ::testing::Not(HasSubstr("  worker 0")));
}

TEST_F(Outputs, SplitTheTimeOfAGradient) {
  for (const char* policy : {"async", "hogwild"}) {
    tool t(train({"--policy", policy, "--steps", "8", "--report", path("run.json")}));
    ASSERT_EQ(t.code(), 0) << t.err();
    const json split = json::parse(std::ifstream(path("run.json")))["time_split"];
    EXPECT_EQ(split["compute"]["count"], 8);
    EXPECT_GT(split["compute"]["seconds"], 0.0);
    EXPECT_EQ(split["apply"]["count"], 8);
    EXPECT_TRUE(split["wire"].is_null());
    EXPECT_EQ(split["mailbox"].is_null(), std::string(policy) == "hogwild");
    EXPECT_EQ(split["per_shard"].size(), 1U);
  }
}

TEST_F(Outputs, AreWrittenThoughOneOfThemFails) {
  tool t(train({"--steps", "8", "--report", "/dev/full", "--staleness-csv", path("gaps.csv")}));
  EXPECT_EQ(t.code(), 1);
  EXPECT_THAT(t.err(), HasSubstr("report '/dev/full' cannot be written: No space left"));
  EXPECT_TRUE(std::filesystem::exists(path("gaps.csv")));
}

TEST_F(Outputs, SayWhichOfThemFailed) {
  tool full(train({"--steps", "8", "--staleness-csv", "/dev/full"}));
  EXPECT_EQ(full.code(), 1);
  EXPECT_THAT(full.err(), HasSubstr("staleness histogram '/dev/full' cannot be written: No space left"));
  tool nowhere(train({"--steps", "8", "--staleness-csv", "/no/such/folder/gaps.csv"}));
  EXPECT_EQ(nowhere.code(), 2);
  EXPECT_THAT(nowhere.err(), HasSubstr("/no/such/folder/gaps.csv"));
  EXPECT_EQ(nowhere.out(), "");
}

TEST_F(Outputs, AreNotTwoInOneFile) {
  tool t(train({"--steps", "8", "--report", path("both"), "--staleness-csv", path("both")}));
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), HasSubstr("--report and --staleness-csv both name"));
}

} // namespace
} // namespace mailgrad
