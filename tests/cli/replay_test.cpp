#include <mailgrad/tests/cli/replay_command_fixture.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

// Runs of the tool, recorded and repeated, on a table of sixty rows.

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ReplayCommand;
using testing::tool;

/// All that a report tells of its switches but when they came, which is another time in a replay.
json switches_in(json report) {
  for (json& one : report["switches"]) one.erase("time_s");
  return report["switches"];
}

TEST_F(ReplayCommand, EndsWithTheSameParametersUnderEveryPolicy) {
  for (const char* policy :
       {"async", "sync", "ssp:1", "dssp:0,3", "backup:1", "k-async:2", "k-batch-async:2", "k-batch-sync:2",
        "rennala:3", "ringmaster:2", "malenia:4", "ringleader", "async, sync@40, k-async:2@80, ssp:1@120"}) {
    SCOPED_TRACE(policy);
    tool recorded(record({"--policy", policy, "--devices", "cpu:0,cpu:0,cpu:0", "--shards", "2", "--steps",
                          "200", "--lr", "0.1"}));
    ASSERT_EQ(recorded.code(), 0) << recorded.err();
    const json was = report();
    tool replayed({"replay", recording_, "--report", report_, "--quiet"});
    EXPECT_EQ(replayed.code(), 0) << replayed.err();
    EXPECT_THAT(replayed.out(), HasSubstr("the same parameters as recorded"));
    const json is = report();
    for (const char* field : {"parameters_sha256", "ledger", "staleness", "policy", "seed", "steps"})
      EXPECT_EQ(was[field], is[field]) << field;
    EXPECT_EQ(switches_in(was), switches_in(is));
  }
}

TEST_F(ReplayCommand, ReadsAPathThatIsNotUtf8) {
  const std::string data = (folder_.path() / "caf\xe9.csv").string();
  std::filesystem::copy_file(data_, data);
  std::vector<std::string> words = record({"--steps", "12"});
  std::ranges::replace(words, data_, data);
  ASSERT_EQ(tool(words).code(), 0);
  tool replayed({"replay", recording_});
  EXPECT_EQ(replayed.code(), 0) << replayed.err();
}

TEST_F(ReplayCommand, RepeatsTheWordsOfTheCommandLine) {
  tool recorded(record({"--optimizer",    "adam:beta1=0.8",
                        "--lr",           "0.01",
                        "--schedule",     "cosine:total=100",
                        "--cure",         "polynomial:0.7",
                        "--devices",      "cpu:0, cpu:0",
                        "--epochs",       "3",
                        "--seed",         "7",
                        "--l2",           "0.001",
                        "--clip-norm",    "2",
                        "--weight-decay", "0.01"}));
  ASSERT_EQ(recorded.code(), 0) << recorded.err();
  tool replayed({"replay", recording_});
  EXPECT_EQ(replayed.code(), 0) << replayed.err();
  EXPECT_THAT(replayed.out(), AllOf(HasSubstr("the same parameters"), HasSubstr("polynomial:0.7")));
}

TEST_F(ReplayCommand, TakesOtherDevicesAndDataThatMoved) {
  ASSERT_EQ(tool(record({"--devices", "cpu:0,cpu:0", "--steps", "50"})).code(), 0);
  const auto moved = folder_.path() / "moved.csv";
  std::filesystem::copy_file(data_, moved);
  tool replayed({"replay", recording_, "--data", moved.string(), "--devices", "cpu:0,cpu:0"});
  EXPECT_EQ(replayed.code(), 0) << replayed.err();
  tool fewer({"replay", recording_, "--devices", "cpu:0"});
  EXPECT_EQ(fewer.code(), 2);
  EXPECT_THAT(fewer.err(), HasSubstr("--devices: the recording has 2, these are 1"));
}

TEST_F(ReplayCommand, LooksCloserAtARunThatDidNot) {
  ASSERT_EQ(tool(record({"--devices", "cpu:0,cpu:0,cpu:0", "--shards", "2", "--steps", "120"})).code(), 0);
  const json was = report();
  const auto in = [&](const char* name) { return (folder_.path() / name).string(); };
  std::vector<json> seen;
  for (std::size_t i = 0; i < 2; ++i) {
    tool replayed({"replay", recording_, "--quiet", "--report", report_, "--trace", in("run.trace.json"),
                   "--staleness-csv", in("gaps.csv"), "--metrics", in("run.jsonl"), "--metrics-every", "30",
                   "--sample-gap", "5"});
    ASSERT_EQ(replayed.code(), 0) << replayed.err();
    seen.push_back(report());
    EXPECT_EQ(seen[i]["parameters_sha256"], was["parameters_sha256"]);
    EXPECT_EQ(seen[i]["staleness"], was["staleness"]);
    EXPECT_GT(seen[i]["weight_gap"]["count"], 0);
  }
  EXPECT_EQ(seen[0]["weight_gap"], seen[1]["weight_gap"]);
  EXPECT_EQ(seen[0]["gradient_cosine"], seen[1]["gradient_cosine"]);
  std::uint64_t counted = 0;
  std::ifstream gaps(in("gaps.csv"));
  std::string line;
  std::getline(gaps, line);
  EXPECT_EQ(line, "shard,worker,gap,count");
  while (std::getline(gaps, line)) counted += std::stoull(line.substr(line.rfind(',') + 1));
  EXPECT_EQ(counted, 2 * 120U) << "on each shard";
  const json trace = json::parse(std::ifstream(in("run.trace.json")));
  EXPECT_EQ(trace["otherData"]["missing"], json::array());
  EXPECT_EQ(
      std::ranges::count_if(trace["traceEvents"],
                            [](const json& e) { return e["name"] == "compares with a fresh gradient"; }),
      seen[1]["gradient_cosine"]["count"].get<std::ptrdiff_t>());
  std::ifstream metrics(in("run.jsonl"));
  json last;
  while (std::getline(metrics, line)) last = json::parse(line);
  EXPECT_EQ(last["steps"], 120);
  EXPECT_EQ(last["updates"], was["updates"]);
}

TEST_F(ReplayCommand, SamplesAsItsRunDidUnlessToldOtherwise) {
  ASSERT_EQ(tool(record({"--devices", "cpu:0,cpu:0", "--steps", "60", "--sample-gap", "4"})).code(), 0);
  const json was = report();
  const auto replayed = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"replay", recording_, "--quiet", "--report", report_};
    words.insert(words.end(), more.begin(), more.end());
    tool t(words);
    EXPECT_EQ(t.code(), 0) << t.err();
    return report();
  };
  const json same = replayed({});
  EXPECT_EQ(same["weight_gap"], was["weight_gap"]);
  EXPECT_EQ(same["gradient_cosine"], was["gradient_cosine"]);
  EXPECT_EQ(replayed({"--sample-gap", "0"})["weight_gap"]["count"], 0);
  EXPECT_GT(replayed({"--sample-gap", "1"})["weight_gap"]["count"], was["weight_gap"]["count"]);
}

TEST_F(ReplayCommand, LeavesStandardOutputToAFileThatGoesThere) {
  ASSERT_EQ(tool(record({"--steps", "20"})).code(), 0);
  tool replayed({"replay", recording_, "--quiet", "--staleness-csv", "-"});
  ASSERT_EQ(replayed.code(), 0) << replayed.err();
  EXPECT_THAT(replayed.out(), ::testing::StartsWith("shard,worker,gap,count\n"));
  EXPECT_EQ(std::ranges::count(replayed.out(), '\n'), 2) << replayed.out();
  EXPECT_THAT(replayed.err(), HasSubstr("the same parameters as recorded"));
}

TEST_F(ReplayCommand, WritesNoFileThatOnlyItsRunWasToWrite) {
  const std::string weights = (folder_.path() / "w.safetensors").string();
  const std::string folder = (folder_.path() / "checkpoints").string();
  ASSERT_EQ(tool(record({"--steps", "20", "--save", weights, "--checkpoint", folder})).code(), 0);
  ASSERT_TRUE(std::filesystem::remove(weights));
  EXPECT_EQ(tool({"replay", recording_, "--quiet"}).code(), 0);
  EXPECT_FALSE(std::filesystem::exists(weights));
}

TEST_F(ReplayCommand, SaysSoIfTheParametersDiffer) {
  ASSERT_EQ(tool(record({"--steps", "20"})).code(), 0);
  const std::string sha = report()["parameters_sha256"];
  forge(sha, std::string(64, '0'));
  tool replayed({"replay", recording_, "--quiet"});
  EXPECT_EQ(replayed.code(), 3);
  EXPECT_THAT(replayed.err(), AllOf(HasSubstr("differs"), HasSubstr(sha), HasSubstr(std::string(64, '0'))));
  EXPECT_EQ(std::ranges::count(replayed.err(), '\n'), 1) << replayed.err();
}

} // namespace
} // namespace mailgrad
