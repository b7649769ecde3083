#include <mailgrad/tests/cli/train_command_fixture.hpp>

#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// Runs of the tool that a signal ends.

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using testing::tool;
using testing::TrainCommand;

TEST_F(TrainCommand, EndsInGoodOrderOnASignalAndNamesIt) {
  const std::vector<std::tuple<int, std::string, int>> signals{
      {SIGINT, "SIGINT", 130}, {SIGTERM, "SIGTERM", 143}, {SIGHUP, "SIGHUP", 129}};
  for (const auto& [number, name, code] : signals) {
    tool t(train({"--epochs", "1000000000"}));
    ASSERT_TRUE(t.says("step ")) << t.err();
    t.signal(number);
    EXPECT_EQ(t.code(), code) << name;
    const json r = report();
    EXPECT_EQ(r["ended"], "stopped");
    EXPECT_EQ(r["why"], "stopped by " + name);
    EXPECT_GT(r["steps"], 0);
    EXPECT_EQ(fates(r["ledger"]), r["ledger"]["produced"]);
  }
}

/// As `timeout` sends them: both have come when the process goes on.
TEST_F(TrainCommand, TakesTwoSignalsAtOnceForOne) {
  tool t(train({"--epochs", "1000000000"}));
  ASSERT_TRUE(t.says("step ")) << t.err();
  for (const int number : {SIGSTOP, SIGTERM, SIGINT, SIGCONT}) t.signal(number);
  EXPECT_GT(t.code(), 0) << t.err();
  EXPECT_TRUE(std::filesystem::exists(report_));
}

/// A run whose training has no end, and whose test takes seconds.
std::vector<std::string> long_test(const scratch_folder& folder) {
  std::string rows = "x,y,label\n";
  for (int i = 0; i < 80'000; ++i)
    rows += std::to_string(i % 7) + ',' + std::to_string(i % 5) + ',' + std::to_string(i % 2) + '\n';
  const std::string data = folder.write("many.csv", rows).string();
  return {"train", "--model", "mlp:hidden=2000x2000x2000", "--data", data, "--batch", "1", "--epochs", "9"};
}

TEST_F(TrainCommand, EndsAtOnceOnASecondSignalOfAnyKind) {
  for (const auto& [first, second] : std::vector<std::pair<int, int>>{{SIGINT, SIGTERM}, {SIGHUP, SIGINT}}) {
    std::vector<std::string> words = long_test(folder_);
    words.insert(words.end(), {"--report", report_});
    tool t(words);
    ASSERT_TRUE(t.says("step ")) << t.err();
    t.signal(first);
    ASSERT_TRUE(t.says("testing on 16000 samples")) << t.err();
    while (t.runs()) t.signal(second); // once more if it came so soon that it counts as the first
    EXPECT_EQ(t.code(), -second);
    EXPECT_THAT(t.err(),
                HasSubstr("mailgrad: a second signal ends the run at once: its weights, report and other "
                          "outputs are lost\n"));
    EXPECT_FALSE(std::filesystem::exists(report_));
  }
}

TEST_F(TrainCommand, GoesOnWhenItsTerminalIsClosedUnderNohup) {
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &ignore, &before); // the tool inherits it
  tool t(train({"--epochs", "1000000000"}));
  sigaction(SIGHUP, &before, nullptr);
  ASSERT_TRUE(t.says("step ")) << t.err();
  t.signal(SIGHUP);
  t.signal(SIGINT);
  EXPECT_EQ(t.code(), 130);
  EXPECT_EQ(report()["why"], "stopped by SIGINT");
}

// The test takes some sixty passes through a wide network, and training one step of one sample.
TEST_F(TrainCommand, EndsTheTestEarlyOnCtrlC) {
  std::string rows = "x,y,label\n";
  for (int i = 0; i < 80'000; ++i)
    rows += std::to_string(i % 7) + ',' + std::to_string(i % 5) + ',' + std::to_string(i % 2) + '\n';
  const std::string data = folder_.write("many.csv", rows).string();
  tool t({"train", "--model", "mlp:hidden=1500x1500", "--data", data, "--batch", "1", "--steps", "1",
          "--report", report_});
  ASSERT_TRUE(t.says("testing on 16000 samples")) << t.err();
  t.signal(SIGINT);
  EXPECT_EQ(t.code(), 130) << t.err();
  const json r = report();
  EXPECT_EQ(r["ended"], "completed");
  EXPECT_EQ(r["why"], "the test was ended early by SIGINT");
  EXPECT_TRUE(r["test_accuracy"].is_null());
  EXPECT_THAT(t.err(), HasSubstr("the test was ended early"));
}

} // namespace
} // namespace mailgrad
