#include <mailgrad/tests/cli/replay_command_fixture.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

// What the tool does not record or repeat, and what it says then.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ReplayCommand;
using testing::tool;

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

/// It is the recording that asks for them. What is forged is as long as what was there.
TEST_F(ReplayCommand, SaysThatTheRecordingHasItsWeightsOrWorkersOnAGpu) {
  const auto line_with = [this](const std::vector<std::string>& devices) {
    std::vector<std::string> all{"replay", recording_, "--quiet"};
    all.insert(all.end(), devices.begin(), devices.end());
    tool t(all);
    EXPECT_EQ(t.code(), 2);
    return t.err();
  };
  ASSERT_EQ(tool(record({"--devices", "cpu:0,cpu:0", "--shards", "2", "--parameters", "host,host", "--steps",
                         "12"}))
                .code(),
            0);
  forge("--devices=cpu:0,cpu:0", "--devices=cuda:9,cuda");
  EXPECT_THAT(line_with({}), AllOf(HasSubstr("run.rec' has its workers on cuda:9,cuda: device cuda:9 is not"),
                                   HasSubstr("it repeats on such GPUs alone")));
  EXPECT_THAT(line_with({"--devices", "cuda:99,cuda:99"}), HasSubstr("mailgrad: device cuda:99 is not"));
  EXPECT_EQ(tool({"replay", recording_, "--quiet", "--devices", "cpu:0,cpu:0"}).code(), 0);
  forge("--parameters=host,host", "--parameters=cuda:9999");
  EXPECT_THAT(line_with({"--devices", "cpu:0,cpu:0"}),
              AllOf(HasSubstr("run.rec' has its weights on cuda:9999: device cuda:9999 is not"),
                    HasSubstr("it repeats on such GPUs alone")));
}

} // namespace
} // namespace mailgrad
