#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

// Event files, opened by Python's package tensorboard. MAILGRAD_PYTHON names the interpreter, by default
// python3.

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using testing::tool;
using words = std::vector<std::string>;

/// The field of a line of metrics that is drawn under each tag.
const std::map<std::string, std::string> fields{
    {"loss/train", "train_loss"},       {"loss/test", "test_loss"},
    {"accuracy/test", "test_accuracy"}, {"staleness/mean", "staleness_mean"},
    {"staleness/p99", "staleness_p99"}, {"ledger/computed", "computed"},
    {"ledger/applied", "applied"},      {"ledger/merged", "merged"},
    {"ledger/discarded", "discarded"},  {"throughput/samples_per_s", "samples_per_s"},
    {"waits/seconds", "waiting_s"},     {"progress/epoch", "epoch"},
    {"progress/updates", "updates"},    {"learning_rate", "learning_rate"}};

class TensorboardInPython : public ::testing::Test {
protected:
  std::string path(const char* name) const { return (folder_.path() / name).string(); }
  words train(const words& more) const {
    words all{"train",   "--model",  "softmax",        "--data",        MAILGRAD_SMALL_CSV,
              "--batch", "4",        "--metrics",      path("m.jsonl"), "--metrics-every",
              "20",      "--report", path("run.json"), "--tensorboard", path("board")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<json> lines(const char* name = "m.jsonl") const {
    std::ifstream in(path(name));
    std::vector<json> all;
    for (std::string line; std::getline(in, line);) all.push_back(json::parse(line));
    return all;
  }
  /// What TensorBoard reads. Skips the test where the package is missing.
  void open(json& board) const {
    const char* python = std::getenv("MAILGRAD_PYTHON");
    const std::string command =
        std::string(python ? python : "python3") + " " MAILGRAD_OPEN_BOARD " '" + path("board") + "'";
    std::FILE* const pipe = popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string text;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
    const int status = pclose(pipe);
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127))
      GTEST_SKIP() << "this machine has no Python with the package tensorboard";
    ASSERT_EQ(status, 0) << command;
    board = json::parse(text);
  }

  /// Every known figure of these lines is there, at its step and time, and nothing else.
  static void expect_scalars(const json& board, const std::vector<json>& lines) {
    EXPECT_EQ(board["scalars"].size(), fields.size() + 1) << "and how often the policy changed";
    for (const auto& [tag, field] : fields) {
      ASSERT_TRUE(board["scalars"].contains(tag)) << tag;
      const json& events = board["scalars"][tag];
      std::size_t next = 0;
      for (const json& line : lines) {
        if (line.value(field, json()).is_null()) continue;
        ASSERT_LT(next, events.size()) << tag;
        const json& event = events[next++];
        EXPECT_EQ(event[0], line["steps"]) << tag;
        EXPECT_EQ(event[2].get<double>(), static_cast<double>(line[field].get<float>())) << tag;
      }
      EXPECT_EQ(next, events.size()) << tag;
    }
  }

  const scratch_folder folder_;
};

TEST_F(TensorboardInPython, HasTheFiguresOfEveryLine) {
  for (const char* policy : {"async", "hogwild"}) {
    std::filesystem::remove_all(path("board"));
    tool t(train({"--steps", "40000", "--policy", policy, "--devices", "cpu:0,cpu:0", "--shards", "2",
                  "--evaluate-every", "5000", "--schedule", "step:every=20000,factor=0.5"}));
    ASSERT_EQ(t.code(), 0) << t.err();
    json board;
    open(board);
    if (IsSkipped() || HasFatalFailure()) return;
    const std::vector<json> told = lines();
    expect_scalars(board, told);
    const json& epochs = board["scalars"]["progress/epoch"];
    ASSERT_EQ(epochs.size(), told.size());
    for (std::size_t i = 0; i < told.size(); ++i)
      EXPECT_NEAR(epochs[i][1].get<double>() - epochs[0][1].get<double>(),
                  told[i]["time_s"].get<double>() - told[0]["time_s"].get<double>(), 1e-5);
  }
}

TEST_F(TensorboardInPython, MarksSwitchesAndNamesTheOptions) {
  tool t(train({"--steps", "2000", "--policy", "async, ssp:2@500", "--devices", "cpu:0,cpu:0"}));
  ASSERT_EQ(t.code(), 0) << t.err();
  json board;
  open(board);
  if (IsSkipped() || HasFatalFailure()) return;
  const json report = json::parse(std::ifstream(path("run.json")));
  const json& texts = board["texts"]["policy"];
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[0], (json{0, "`async`"}));
  EXPECT_EQ(texts[1][0], report["switches"][0]["step"]);
  EXPECT_TRUE(texts[1][1].get<std::string>().starts_with("`ssp:2`, after `async` until step ")) << texts;
  EXPECT_EQ(board["scalars"]["policy/switches"][1][2], 1.0);
  EXPECT_EQ(board["options"]["policy"], "async, ssp:2@500");
  EXPECT_EQ(board["options"]["model"], "softmax");
  EXPECT_EQ(board["options"]["batch"], 4.0);
}

TEST_F(TensorboardInPython, CountsTheGapsOfTheReport) {
  for (const char* policy : {"async", "hogwild", "ssp:1"}) {
    std::filesystem::remove_all(path("board"));
    tool t(train({"--steps", "20000", "--policy", policy, "--devices", "cpu:0,cpu:0", "--shards", "2"}));
    ASSERT_EQ(t.code(), 0) << t.err();
    json board;
    open(board);
    if (IsSkipped() || HasFatalFailure()) return;
    std::map<double, double> found;
    for (const json& event : board["histograms"]["staleness/gaps"]) {
      const json& h = event[1];
      double counted = 0;
      for (std::size_t i = 0; i < h["bucket"].size(); ++i) {
        const double count = h["bucket"][i];
        counted += count;
        if (count > 0) found[h["bucket_limit"][i].get<double>() - 0.5] += count;
      }
      EXPECT_EQ(counted, h["num"].get<double>());
    }
    std::map<double, double> expected;
    const json report = json::parse(std::ifstream(path("run.json")));
    for (const json& bucket : report["staleness"]["histogram"]) expected[bucket[0]] = bucket[1];
    EXPECT_EQ(found, expected) << policy;
  }
}

/// Both processes write a file of their own, and TensorBoard draws one run.
TEST_F(TensorboardInPython, DrawsAResumedRunAsOne) {
  tool first(train({"--steps", "10000", "--checkpoint", path("kept")}));
  ASSERT_EQ(first.code(), 0) << first.err();
  const std::vector<json> before = lines();
  tool second({"train", "--same-outputs", "--resume", path("kept"), "--steps", "30000", "--metrics",
               path("second.jsonl")});
  ASSERT_EQ(second.code(), 0) << second.err();
  json board;
  open(board);
  if (IsSkipped() || HasFatalFailure()) return;
  std::vector<json> told = before;
  // The checkpoint of the end is a few ms older than the end, so the last lines may overlap in time.
  const double half = before.back()["time_s"].get<double>() / 2;
  for (const json& line : lines("second.jsonl")) {
    EXPECT_GT(line["steps"], 10000);
    EXPECT_GT(line["time_s"], half);
    told.push_back(line);
  }
  EXPECT_EQ(told.back()["steps"], 30000);
  expect_scalars(board, told);
}

/// What a process did after its last checkpoint is lost, and done again by the next one.
TEST_F(TensorboardInPython, LeavesOutWhatWasLost) {
  tool first(train({"--steps", "10000", "--checkpoint", path("kept")}));
  ASSERT_EQ(first.code(), 0) << first.err();
  tool lost({"train", "--same-outputs", "--resume", path("kept"), "--steps", "20000", "--checkpoint",
             path("elsewhere")});
  ASSERT_EQ(lost.code(), 0) << lost.err();
  tool again({"train", "--same-outputs", "--resume", path("kept"), "--steps", "20000", "--metrics",
              path("again.jsonl")});
  ASSERT_EQ(again.code(), 0) << again.err();
  json board;
  open(board);
  if (IsSkipped() || HasFatalFailure()) return;
  std::vector<std::uint64_t> steps;
  for (const json& event : board["scalars"]["progress/epoch"])
    if (event[0] > 10000) steps.push_back(event[0]);
  std::vector<std::uint64_t> expected;
  for (const json& line : lines("again.jsonl")) expected.push_back(line["steps"]);
  EXPECT_EQ(steps, expected);
}

} // namespace
} // namespace mailgrad
