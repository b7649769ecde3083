#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

// The tool with update rules that look at whole variables.

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::tool;

class TrainCommandWithWholeVariables : public ::testing::Test {
protected:
  std::vector<std::string> words(const std::string& optimizer, std::vector<std::string> more) const {
    std::vector<std::string> all{"train",       "--model",  "mlp:hidden=8x6", "--data", MAILGRAD_SMALL_CSV,
                                 "--optimizer", optimizer,  "--batch",        "4",      "--epochs",
                                 "2",           "--report", report_};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  json trained(const std::string& optimizer, std::vector<std::string> more) const {
    tool t(words(optimizer, std::move(more)));
    EXPECT_EQ(t.code(), 0) << t.err();
    return json::parse(std::ifstream(report_));
  }
  static std::string plugin(const std::string& name) { return MAILGRAD_TEST_PLUGINS "/" + name + ".so"; }

  const scratch_folder folder_;
  const std::string report_ = (folder_.path() / "run.json").string();
};

TEST_F(TrainCommandWithWholeVariables, TellsTheBalanceOfItsShards) {
  tool t(words("muon", {"--shards", "2"}));
  EXPECT_EQ(t.code(), 0) << t.err();
  EXPECT_THAT(t.out() + t.err(), AllOf(HasSubstr(" weights in 2 shards of whole variables: "),
                                       HasSubstr(" bytes, "), HasSubstr("; the largest has ")));
}

/// Workers in other processes are told where the shards are cut.
TEST_F(TrainCommandWithWholeVariables, MakesTheSameWeightsInOtherProcesses) {
  for (const std::string& rule : {std::string("shampoo"), std::string("muon")}) {
    const json here =
        trained(rule, {"--shards", "2", "--policy", "sync", "--devices", "cpu:0,cpu:0", "--quiet"});
    const json there = trained(rule, {"--shards", "2", "--policy", "sync", "--processes", "2", "--quiet"});
    EXPECT_EQ(there["parameters_sha256"], here["parameters_sha256"]) << rule;
    EXPECT_EQ(there["optimizer"], rule);
  }
}

TEST_F(TrainCommandWithWholeVariables, TakesAPluginThatAsksForThem) {
  const json one = trained(plugin("own_lars"), {"--quiet"});
  EXPECT_EQ(trained(plugin("own_lars"), {"--shards", "3", "--quiet"})["parameters_sha256"],
            one["parameters_sha256"]);
  EXPECT_EQ(trained(plugin("old_version_1"), {"--quiet"})["ended"], "completed");
}

TEST_F(TrainCommandWithWholeVariables, IsRefusedInOneLineWhereItCannotBe) {
  const std::pair<std::vector<std::string>, std::string> wrong[] = {
      {words("muon", {"--policy", "hogwild"}),
       "optimizer 'muon' looks at whole variables, and under hogwild"},
      {words("lamb", {"--shards", "99"}), "99 shards cannot be cut between the variables of a model of 6"},
      {words("muon:adamw=head", {}), "no variable of the model has this in its name"},
      {words(plugin("own_lars"), {"--policy", "hogwild"}), "looks at whole variables, and under hogwild"},
      {words("muon:nesterov=perhaps", {}), "nesterov"},
  };
  for (const auto& [all, why] : wrong) {
    tool t(all);
    EXPECT_EQ(t.code(), 2);
    EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
    EXPECT_THAT(t.err(), HasSubstr(why));
  }
}

} // namespace
} // namespace mailgrad
