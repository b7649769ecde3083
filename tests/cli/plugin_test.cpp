#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>

// The tool with an update rule from a shared library.

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::tool;

class TrainCommandWithAPlugin : public ::testing::Test {
protected:
  std::vector<std::string> train(const std::string& data, const std::string& optimizer,
                                 std::vector<std::string> words) const {
    std::vector<std::string> all{"train",       "--model", "softmax",  "--data", data,
                                 "--optimizer", optimizer, "--report", report_,  "--quiet"};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  /// The report of a run that has to end well.
  json trained(const std::string& data, const std::string& optimizer, std::vector<std::string> words) const {
    tool t(train(data, optimizer, std::move(words)));
    EXPECT_EQ(t.code(), 0) << t.err();
    return json::parse(std::ifstream(report_));
  }

  static std::string plugin(const std::string& name) { return MAILGRAD_TEST_PLUGINS "/" + name + ".so"; }

  const scratch_folder folder_;
  const std::string report_ = (folder_.path() / "run.json").string();
};

TEST_F(TrainCommandWithAPlugin, MakesTheWeightsOfTheSameRuleBuiltInBitForBit) {
  const std::vector<std::string> runs[] = {
      {"--policy", "async", "--epochs", "3"},
      {"--policy", "hogwild", "--epochs", "3"},
      {"--policy", "sync", "--devices", "cpu:0,cpu:0", "--shards", "2", "--epochs", "3"},
      {"--clip-norm", "0.1", "--schedule", "cosine:total=30,warmup=3", "--epochs", "3"},
      {"--weight-decay", "0.1", "--epochs", "3"},
  };
  for (std::vector<std::string> words : runs) {
    words.insert(words.end(), {"--lr", "0.1", "--batch", "4"});
    const json ours = trained(MAILGRAD_SMALL_CSV, "sgd", words);
    const json own = trained(MAILGRAD_SMALL_CSV, plugin("own_sgd"), words);
    EXPECT_EQ(own["parameters_sha256"], ours["parameters_sha256"]) << ::testing::PrintToString(words);
    EXPECT_EQ(own["ended"], "completed");
  }
}

TEST_F(TrainCommandWithAPlugin, IsNamedInTheReportWithItsOwnLearningRate) {
  const json r = trained(MAILGRAD_SMALL_CSV, plugin("own_sgd"), {"--steps", "4", "--batch", "4"});
  EXPECT_EQ(r["optimizer"], "own-sgd (" + plugin("own_sgd") + ")");
  EXPECT_EQ(r["learning_rate"], 0.25);
}

TEST_F(TrainCommandWithAPlugin, TakesItsSettings) {
  const auto weights = [this](const std::string& settings) {
    return trained(MAILGRAD_SMALL_CSV, plugin("own_momentum") + settings,
                   {"--steps", "9", "--batch", "4"})["parameters_sha256"];
  };
  EXPECT_EQ(weights(""), weights(":momentum=0.9"));
  EXPECT_NE(weights(""), weights(":momentum=0.5"));
}

TEST_F(TrainCommandWithAPlugin, TrainsASparseModelUnderEveryPolicy) {
  std::string rows;
  for (int i = 0; i < 40; ++i)
    rows += std::to_string(i % 2) + ' ' + std::to_string(1 + i % 2 + i % 7) + ":1 9:0.5\n";
  const std::string data = folder_.write("small.libsvm", rows).string();
  for (const char* policy : {"async", "sync", "ssp:1", "k-batch-async:2", "hogwild"}) {
    const json r = trained(data, plugin("own_momentum"),
                           {"--policy", policy, "--devices", "cpu:0,cpu:0", "--epochs", "3", "--batch", "4"});
    EXPECT_EQ(r["ended"], "completed") << policy;
    EXPECT_EQ(r["ledger"]["produced"], r["steps"]) << policy;
  }
  // With one sample at a time no row comes twice in a gradient; SGD of ours would not sum them first.
  const std::vector<std::string> singly{"--batch", "1", "--lr", "0.1"};
  EXPECT_EQ(trained(data, plugin("own_sgd"), singly)["parameters_sha256"],
            trained(data, "sgd", singly)["parameters_sha256"]);
}

TEST_F(TrainCommandWithAPlugin, IsLoadedInAReplayOnlyIfItIsTheOneRecorded) {
  const std::string file = (folder_.path() / "rule.so").string();
  const std::string recording = (folder_.path() / "run.rec").string();
  std::filesystem::copy_file(plugin("own_momentum"), file);
  trained(MAILGRAD_SMALL_CSV, file + ":momentum=0.5",
          {"--steps", "9", "--batch", "4", "--record", recording});
  tool same({"replay", recording});
  EXPECT_EQ(same.code(), 0) << same.err();
  EXPECT_THAT(same.err(), HasSubstr("loading the plug-in of the recording: " + file + ", SHA-256 "));
  const std::string sum = same.err().substr(same.err().find("SHA-256 ") + 8, 64);
  std::filesystem::remove(file);
  std::filesystem::copy_file(plugin("own_sgd"), file);
  tool other({"replay", recording});
  EXPECT_EQ(other.code(), 2);
  EXPECT_THAT(other.err(), AllOf(HasSubstr("SHA-256 of plug-in '" + file + "' was " + sum + ", and is "),
                                 ::testing::Not(HasSubstr("loading"))));
  EXPECT_EQ(std::ranges::count(other.err(), '\n'), 1) << other.err();
}

/// A checkpoint may come from anybody, and a plug-in is code.
TEST_F(TrainCommandWithAPlugin, IsLoadedInAResumedRunOnlyIfItIsNamedThen) {
  const std::string file = (folder_.path() / "rule.so").string(), kept = (folder_.path() / "kept").string();
  std::filesystem::copy_file(plugin("own_momentum"), file);
  trained(MAILGRAD_SMALL_CSV, file + ":momentum=0.5", {"--steps", "9", "--batch", "4", "--checkpoint", kept});
  const auto resumed = [&](std::vector<std::string> more, const char* steps = "12") {
    more.insert(more.begin(), {"train", "--resume", kept, "--steps", steps, "--quiet"});
    return tool(more);
  };
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--plugin", plugin("own_momentum")}, {"--policy", "sync"}}) {
    tool none = resumed(more);
    EXPECT_EQ(none.code(), 2);
    EXPECT_THAT(none.err(), HasSubstr("names plug-ins, which are code: '" + file +
                                      "'; if you trust them, give --plugin " + file + "\n"));
  }
  tool stopped = resumed({"--plugin", file, "--stop-when", "steps>=10", "--metrics-every", "1"}, "100000000");
  EXPECT_EQ(stopped.code(), 0) << stopped.err();
  EXPECT_THAT(stopped.out(),
              HasSubstr("\ngoes on by    mailgrad train --plugin " + file + " --resume " + kept));
}

/// A recording that somebody trusts says nothing of a checkpoint.
TEST_F(TrainCommandWithAPlugin, IsLoadedInAResumedReplayOnlyIfItIsNamedOrRecorded) {
  const auto in = [&](const char* name) { return (folder_.path() / name).string(); };
  std::filesystem::copy_file(plugin("own_momentum"), in("rule.so"));
  const std::vector<std::string> more{"--steps", "9", "--batch", "4"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  trained(MAILGRAD_SMALL_CSV, "sgd", with({"--record", in("sgd.rec")}));
  trained(MAILGRAD_SMALL_CSV, in("rule.so"), with({"--record", in("rule.rec"), "--checkpoint", in("kept")}));
  tool other({"replay", in("sgd.rec"), "--resume", in("kept")});
  EXPECT_EQ(other.code(), 2);
  EXPECT_THAT(other.err(), HasSubstr("names plug-ins, which are code: '" + in("rule.so") +
                                     "'; if you trust them, give --plugin " + in("rule.so") + "\n"));
  tool named({"replay", in("sgd.rec"), "--resume", in("kept"), "--plugin", in("rule.so")});
  EXPECT_EQ(named.code(), 2);
  EXPECT_THAT(named.err(), ::testing::Not(HasSubstr("names plug-ins")));
  tool replay({"replay", in("rule.rec"), "--checkpoint", in("replayed"), "--checkpoint-every", "4"});
  ASSERT_EQ(replay.code(), 0) << replay.err();
  tool on({"replay", in("rule.rec"), "--resume", in("replayed")});
  EXPECT_EQ(on.code(), 0) << on.err();
}

TEST_F(TrainCommandWithAPlugin, IsLoadedInAResumedRunThatNamesItOrItsOptionAnew) {
  const std::string file = (folder_.path() / "rule.so").string(), kept = (folder_.path() / "kept").string();
  std::filesystem::copy_file(plugin("own_momentum"), file);
  trained(MAILGRAD_SMALL_CSV, file + ":momentum=0.5", {"--steps", "9", "--batch", "4", "--checkpoint", kept});
  const auto resumed = [&](std::vector<std::string> more, const char* steps = "12") {
    more.insert(more.begin(), {"train", "--resume", kept, "--steps", steps, "--quiet"});
    return tool(more);
  };
  tool named = resumed({"--plugin", file});
  EXPECT_EQ(named.code(), 0) << named.err();
  tool anew = resumed({"--optimizer", file + ":momentum=0.5"}, "15");
  EXPECT_EQ(anew.code(), 0) << anew.err();
}

TEST_F(TrainCommandWithAPlugin, IsRefusedInOneLineIfItDoesNotFit) {
  const std::pair<std::string, std::string> wrong[] = {
      {plugin("version_7"), "has version 7 of the plug-in interface, this mailgrad has versions 1 to 3"},
      {"./no_such_file.so", "cannot be read: No such file or directory"},
      {plugin("looks_at_neighbours"), "each weight must follow from its own gradient and states"},
      {plugin("no_entry"), "it has no function mailgrad_plugin_rule"},
      {plugin("own_momentum") + ":momentum=7", "momentum must be at least 0 and less than 1, not '7'"},
  };
  for (const auto& [optimizer, why] : wrong) {
    tool t(train(MAILGRAD_SMALL_CSV, optimizer, {}));
    EXPECT_EQ(t.code(), 2);
    EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
    EXPECT_THAT(t.err(), AllOf(HasSubstr("mailgrad: optimizer '"), HasSubstr(why)));
    EXPECT_THAT(t.out(), IsEmpty());
  }
}

} // namespace
} // namespace mailgrad
