#include <mailgrad/tests/cli/replay_command_fixture.hpp>
#include <mailgrad/tests/support/full_disk.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// Recordings of runs that were ended, were killed or are still under way, and one that filled the disk.

namespace mailgrad {
namespace {

using json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::ReplayCommand;
using testing::tool;

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

TEST_F(ReplayCommand, GoesOnWithItsOutputsIfThatIsAskedFor) {
  ASSERT_EQ(tool(record({"--steps", "60"})).code(), 0);
  const auto in = [&](const char* name) { return (folder_.path() / name).string(); };
  tool first({"replay", recording_, "--quiet", "--checkpoint", in("kept"), "--checkpoint-every", "20",
              "--report", in("again.json"), "--metrics", in("again.jsonl"), "--metrics-every", "10"});
  ASSERT_EQ(first.code(), 0) << first.err();
  const auto resumed = [&](const std::vector<std::string>& more) {
    std::filesystem::remove(in("again.json"));
    std::vector<std::string> words{"replay", recording_, "--quiet", "--resume",
                                   checkpoints_in(in("kept")).back().string()};
    words.insert(words.end(), more.begin(), more.end());
    tool t(words);
    EXPECT_EQ(t.code(), 0) << t.err();
    EXPECT_THAT(t.out(), HasSubstr("the same parameters as recorded"));
    return t.err();
  };
  EXPECT_THAT(resumed({"--checkpoint", in("other")}), HasSubstr("; without --report=" + in("again.json")));
  EXPECT_FALSE(std::filesystem::exists(in("again.json")));
  resumed({"--checkpoint", in("third"), "--same-outputs"});
  EXPECT_TRUE(std::filesystem::exists(in("again.json")));
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

TEST_F(ReplayCommand, GoesAsFarAsARecordingThatFilledTheDisk) {
  std::optional<tool> recorded;
  {
    const testing::full_disk full(200'000); // bytes, which the recording alone exceeds
    recorded.emplace(record({"--devices", "cpu:0,cpu:0", "--steps", "20000", "--save",
                             (folder_.path() / "m.safetensors").string()}),
                     "/dev/null");
    EXPECT_EQ(recorded->code(), 1);
  }
  if (recorded->err().find("ended early") != std::string::npos) { // the recorder was no later than the run
    EXPECT_THAT(recorded->err(),
                AllOf(HasSubstr("recording '" + recording_ + "' ended early, after "),
                      HasSubstr("File too large; all of that is in '" + recording_ + ".partial'")));
    EXPECT_EQ(recorded->err().find("ended early"), recorded->err().rfind("ended early")) << "said once";
  }
  EXPECT_THAT(recorded->err(),
              HasSubstr("mailgrad: recording '" + recording_ + "' is not whole: File too large\n"));
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

} // namespace
} // namespace mailgrad
