#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/full_disk.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

// Runs of the tool, recorded and repeated, on a table of sixty rows.

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::tool;

class ReplayCommand : public ::testing::Test {
protected:
  std::vector<std::string> record(const std::vector<std::string>& words) const {
    std::vector<std::string> all{"train",  "--model", "softmax",  "--batch",  "4",        "--quiet",
                                 "--data", data_,     "--record", recording_, "--report", report_};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  json report() const { return json::parse(std::ifstream(report_)); }
  std::string bytes() const {
    std::ostringstream text;
    text << std::ifstream(recording_, std::ios::binary).rdbuf();
    return text.str();
  }

  /// Writes the recording anew, `from` replaced by `to`, which is as long, under a checksum that is right.
  void forge(const std::string& from, const std::string& to) const {
    std::string text = bytes();
    ASSERT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    const std::size_t body = text.size() - 12;
    const auto checksum = crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), body);
    for (std::size_t i = 0; i < 4; ++i) text[body + i] = static_cast<char>(checksum >> (8 * i) & 0xff);
    folder_.write("run.rec", text);
  }

  const scratch_folder folder_;
  const std::string data_ = MAILGRAD_SMALL_CSV;
  const std::string recording_ = (folder_.path() / "run.rec").string();
  const std::string report_ = (folder_.path() / "run.json").string();
};

TEST_F(ReplayCommand, WritesOverNothingThatItReads) {
  ASSERT_EQ(tool(record({"--devices", "cpu:0,cpu:0", "--steps", "12"})).code(), 0);
  const std::string before = bytes();
  tool replayed({"replay", recording_, "--report", recording_});
  EXPECT_EQ(replayed.code(), 2);
  EXPECT_THAT(replayed.err(), HasSubstr("--report and the recording both name"));
  EXPECT_EQ(bytes(), before);
  tool both({"train", "--data", data_, "--record", report_, "--report", report_});
  EXPECT_EQ(both.code(), 2);
  EXPECT_THAT(both.err(), HasSubstr("--report and --record both name"));
  tool nameless({"train", "--data", data_, "--report", ""});
  EXPECT_EQ(nameless.code(), 2);
  EXPECT_THAT(nameless.err(), HasSubstr("file name is missing"));
}

TEST_F(ReplayCommand, KeepsAnOlderRecordingUntilTheNewOneIsWhole) {
  folder_.write("run.rec", "an older recording");
  std::vector<std::string> words = record({"--epochs", "1000000000"});
  std::erase(words, "--quiet");
  tool killed(words);
  ASSERT_TRUE(killed.says("step ")) << killed.err();
  EXPECT_EQ(bytes(), "an older recording");
  killed.signal(SIGKILL);
  EXPECT_EQ(killed.code(), -SIGKILL);
  EXPECT_EQ(bytes(), "an older recording");
  ASSERT_EQ(tool(record({"--steps", "12"})).code(), 0);
  EXPECT_TRUE(bytes().starts_with("mgradrec"));
  EXPECT_FALSE(std::filesystem::exists(recording_ + ".partial")) << "nor is what was left before in the way";
  EXPECT_TRUE(std::filesystem::exists(recording_ + ".killed")) << "where it may still be replayed";
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
    for (const char* field :
         {"parameters_sha256", "ledger", "staleness", "switches", "policy", "seed", "steps"})
      EXPECT_EQ(was[field], is[field]) << field;
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
  for (int i = 0; i < 2; ++i) {
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

TEST_F(ReplayCommand, RefusesInOneLineALookThatMakesNoSense) {
  ASSERT_EQ(tool(record({"--steps", "20", "--local-steps", "4"})).code(), 0);
  const std::string before = bytes();
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"--sample-gap", "2"}, "--sample-gap: with --local-steps"},
      {{"--trace", recording_}, "--trace and the recording both name"},
      {{"--metrics", recording_}, "--metrics and the recording both name"},
      {{"--staleness-csv", data_}, "--staleness-csv and --data both name"},
      {{"--trace", "-", "--report", "-"}, "--report and --trace both name"},
      {{"--metrics", "-"}, "--metrics: the lines go to a file"},
      {{"--trace", "/no/such/folder/x"}, "'/no/such/folder/x' cannot be written"},
      {{"--sample-gap", "x"}, "--sample-gap"},
  };
  for (const auto& [more, why] : wrong) {
    std::vector<std::string> words{"replay", recording_};
    words.insert(words.end(), more.begin(), more.end());
    tool t(words);
    EXPECT_EQ(t.code(), 2) << why;
    EXPECT_THAT(t.err(), HasSubstr(why));
    EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
  }
  EXPECT_EQ(bytes(), before);
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

TEST_F(ReplayCommand, RepeatsARunThatCtrlCEnded) {
  std::vector<std::string> words =
      record({"--devices", "cpu:0,cpu:0", "--epochs", "1000000000", "--shards", "2"});
  std::erase(words, "--quiet");
  tool recorded(words);
  ASSERT_TRUE(recorded.says("step ")) << recorded.err();
  recorded.signal(SIGINT);
  ASSERT_EQ(recorded.code(), 130);
  const json was = report();
  tool replayed({"replay", recording_, "--report", report_, "--quiet"});
  EXPECT_EQ(replayed.code(), 0) << replayed.err();
  EXPECT_EQ(report()["parameters_sha256"], was["parameters_sha256"]);
  EXPECT_EQ(report()["ledger"], was["ledger"]);
}

TEST_F(ReplayCommand, RepeatsAKilledRunAsFarAsItGoes) {
  std::vector<std::string> words =
      record({"--devices", "cpu:0,cpu:0", "--epochs", "1000000000", "--shards", "2"});
  std::erase(words, "--quiet");
  tool killed(words);
  ASSERT_TRUE(killed.says("step ")) << killed.err();
  tool too_early({"replay", recording_ + ".partial"});
  EXPECT_EQ(too_early.code(), 2);
  EXPECT_THAT(too_early.err(), HasSubstr("is being written by a run (process "));
  killed.signal(SIGKILL);
  killed.code();
  tool other({"replay", recording_});
  EXPECT_EQ(other.code(), 2);
  EXPECT_THAT(other.err(), HasSubstr("run.rec.partial'")) << "where to look";
  tool replayed({"replay", recording_ + ".partial", "--report", report_, "--quiet"});
  EXPECT_EQ(replayed.code(), 4) << replayed.err();
  EXPECT_THAT(replayed.out(), HasSubstr("as far as the recording goes"));
  EXPECT_THAT(replayed.err(),
              AllOf(HasSubstr("the recording ends after " + report()["steps"].dump() + " of "),
                    HasSubstr("since it was not completed")));
  EXPECT_EQ(report()["ended"], "completed");
  EXPECT_GT(report()["steps"], 0);
}

TEST_F(ReplayCommand, LeavesARunThatRecordsAlone) {
  std::vector<std::string> words = record({"--epochs", "1000000000"});
  std::erase(words, "--quiet");
  tool first(words);
  ASSERT_TRUE(first.says("step ")) << first.err();
  tool second(record({"--steps", "12"}));
  EXPECT_EQ(second.code(), 2);
  EXPECT_THAT(second.err(),
              AllOf(HasSubstr("another run is recording into it (process "), HasSubstr("run.rec")));
  EXPECT_EQ(std::ranges::count(second.err(), '\n'), 1) << second.err();
  first.signal(SIGINT);
  EXPECT_EQ(first.code(), 130);
  EXPECT_EQ(tool({"replay", recording_, "--quiet"}).code(), 0);
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

TEST_F(ReplayCommand, RefusesInOneLineWhatItCannotRepeat) {
  ASSERT_EQ(tool(record({"--steps", "20", "--devices", "cpu:0,cpu:0"})).code(), 0);
  const std::string whole = bytes();
  const auto expect_refusal = [&](const std::string& why, const std::vector<std::string>& words = {}) {
    std::vector<std::string> all{"replay", recording_};
    all.insert(all.end(), words.begin(), words.end());
    tool t(all);
    EXPECT_EQ(t.code(), 2) << why;
    EXPECT_THAT(t.err(), AllOf(HasSubstr(why), HasSubstr("mailgrad: "), HasSubstr("run.rec")));
    EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
    EXPECT_EQ(t.out(), "");
  };
  const std::string other_data =
      folder_.write("other.csv", "x,y,label\n1,2,0\n3,4,1\n5,6,1\n7,8,0\n9,1,1\n2,3,0\n");
  expect_refusal("training samples was 48, and is 5 here; the training data were small.csv (SHA-256 ",
                 {"--data", other_data});
  expect_refusal("), and are other.csv (SHA-256 ", {"--data", other_data});
  forge("kernels ", "Kernels ");
  expect_refusal("the arithmetic was Kernels");
  folder_.write("run.rec", whole.substr(0, whole.size() / 2));
  expect_refusal("cut short");
  folder_.write("run.rec", "{}");
  expect_refusal("is no recording");
  folder_.write("run.rec", whole.substr(0, 8) + '\7' + whole.substr(9));
  expect_refusal("has format 7; this version reads format 2");
  std::string damaged = whole;
  damaged[damaged.size() / 2] ^= 1;
  folder_.write("run.rec", damaged);
  expect_refusal("is damaged: expected checksum");
  std::filesystem::remove(recording_);
  expect_refusal("cannot be read: No such file");
  std::filesystem::create_directory(recording_);
  expect_refusal("cannot be read: Is a directory");
}

TEST_F(ReplayCommand, RefusesASwitchToWhatIsNoPolicyBeforeItTrains) {
  ASSERT_EQ(tool(record({"--steps", "20", "--policy", "async, sync@9"})).code(), 0);
  forge("\"policy\":\"sync\"", "\"policy\":\"snyc\"");
  tool t({"replay", recording_});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), AllOf(HasSubstr("a switch that cannot be"), HasSubstr("'snyc'")));
  EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
}

TEST_F(ReplayCommand, TrainRecordsNoHogwild) {
  tool t(record({"--policy", "hogwild"}));
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), AllOf(HasSubstr("record"), HasSubstr("hogwild")));
  EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1);
  EXPECT_FALSE(std::filesystem::exists(recording_));
}

TEST_F(ReplayCommand, TrainSaysSoIfItCannotRecord) {
  tool nowhere(
      {"train", "--model", "softmax", "--data", data_, "--batch", "4", "--record", "/no/such/folder/x"});
  EXPECT_EQ(nowhere.code(), 2);
  EXPECT_EQ(std::ranges::count(nowhere.err(), '\n'), 1) << nowhere.err();
  EXPECT_THAT(nowhere.err(), HasSubstr("'/no/such/folder/x' cannot be written"));
  tool full(
      {"train", "--model", "softmax", "--data", data_, "--batch", "4", "--quiet", "--record", "/dev/full"});
  EXPECT_EQ(full.code(), 2);
  EXPECT_THAT(full.err(), HasSubstr("recording '/dev/full' cannot be written: No space left"));
}

TEST_F(ReplayCommand, GoesAsFarAsARecordingThatFilledTheDisk) {
  std::optional<tool> recorded;
  {
    const testing::full_disk full(200'000); // bytes, which the recording alone exceeds
    recorded.emplace(record({"--devices", "cpu:0,cpu:0", "--steps", "20000", "--save",
                             (folder_.path() / "m.safetensors").string()}),
                     "/dev/null");
    EXPECT_EQ(recorded->code(), 1);
  }
  EXPECT_THAT(recorded->err(),
              AllOf(HasSubstr("recording '" + recording_ + "' ended early, after "),
                    HasSubstr("File too large; all of that is in '" + recording_ + ".partial'")));
  EXPECT_EQ(recorded->err().find("ended early"), recorded->err().rfind("ended early")) << "said once";
  EXPECT_THAT(recorded->err(), HasSubstr("mailgrad: recording '" + recording_ + "' is not whole\n"));
  EXPECT_EQ(report()["ended"], "completed");
  EXPECT_EQ(report()["steps"], 20000);
  EXPECT_EQ(report()["recording"]["failure"], "File too large");
  EXPECT_EQ(report()["recording"]["kept_bytes"], std::filesystem::file_size(recording_ + ".partial"));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() / "m.safetensors"));
  tool replayed({"replay", recording_ + ".partial", "--report", report_, "--quiet"});
  EXPECT_EQ(replayed.code(), 4) << replayed.err();
  EXPECT_GT(report()["steps"], 1000);
  EXPECT_LT(report()["steps"], 20000);
}

/// It is the recording that asks for them. "cuda" is as long as "host".
TEST_F(ReplayCommand, SaysThatTheRecordingHasItsWeightsOrWorkersOnACard) {
  const auto line_with = [this](const std::vector<std::string>& devices) {
    std::vector<std::string> all{"replay", recording_, "--quiet"};
    all.insert(all.end(), devices.begin(), devices.end());
    tool t(all);
    EXPECT_EQ(t.code(), 2);
    return t.err();
  };
  ASSERT_EQ(tool(record({"--devices", "cpu:0,cpu", "--parameters", "host", "--steps", "12"})).code(), 0);
  forge("--devices=cpu:0,cpu", "--devices=cuda,cuda");
  EXPECT_THAT(line_with({}), AllOf(HasSubstr("run.rec' has its workers on cuda,cuda: device cuda:0 is not"),
                                   HasSubstr("it repeats on such cards alone")));
  EXPECT_THAT(line_with({"--devices", "cuda:8,cuda:8"}), AllOf(HasSubstr("mailgrad: device cuda:8 is not")));
  EXPECT_EQ(tool({"replay", recording_, "--quiet", "--devices", "cpu:0,cpu:0"}).code(), 0);
  forge("--parameters=host", "--parameters=cuda");
  EXPECT_THAT(line_with({"--devices", "cpu:0,cpu:0"}),
              AllOf(HasSubstr("run.rec' has its weights on cuda: device cuda:0 is not"),
                    HasSubstr("it repeats on such cards alone")));
}

} // namespace
} // namespace mailgrad
