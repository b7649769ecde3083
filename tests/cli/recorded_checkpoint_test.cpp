#include <mailgrad/tests/cli/kept_run.hpp>

#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <string>

// Runs of the tool that are recorded and keep checkpoints.

namespace mailgrad {
namespace {

using ::testing::HasSubstr;
using testing::tool;
using testing::words;

class RecordedCheckpoints : public testing::KeptRun {};

/// Killed again and again, a run leaves one recording, of all that it has done.
TEST_F(RecordedCheckpoints, LetARecordingGoOn) {
  const std::string recording = (scratch_.path() / "run.rec").string();
  words run = train({"--devices", "cpu:0,cpu:0", "--policy", "async, ssp:1@20000", "--shards", "2",
                     "--record", recording, "--checkpoint", folder(), "--checkpoint-every", "100"},
                    "50000");
  int killed = 0;
  for (int round = 0; round < 4; ++round) {
    const std::filesystem::path before = newest();
    tool t(run);
    await_newer(t, before);
    t.signal(SIGKILL);
    killed += t.code() == -SIGKILL ? 1 : 0;
    EXPECT_THAT(t.err(), ::testing::Not(HasSubstr("without a recording")));
    run = {"train", "--same-outputs", "--resume", folder(), "--quiet"};
  }
  EXPECT_GE(killed, 2);
  const nlohmann::json last = resumed();
  EXPECT_EQ(last["ledger"]["produced"], 50'000);
  tool again({"replay", recording, "--quiet"});
  EXPECT_EQ(again.code(), 0) << again.err();
  EXPECT_THAT(again.out(), HasSubstr("the same parameters as recorded"));
  EXPECT_FALSE(std::filesystem::exists(recording + ".before"));
}

TEST_F(RecordedCheckpoints, GoOnWithoutARecordingThatIsGone) {
  const std::string recording = (scratch_.path() / "run.rec").string();
  tool t(checkpointed({"--record", recording}));
  await_newer(t);
  t.signal(SIGKILL);
  t.code();
  for (const char* suffix : {"", ".partial"}) std::filesystem::remove(recording + suffix);
  tool refused({"train", "--same-outputs", "--resume", folder(), "--quiet", "--record", recording});
  EXPECT_EQ(refused.code(), 2);
  EXPECT_THAT(refused.err(), HasSubstr("there is no recording '" + recording + "'; leave --record out"));
  tool again({"train", "--same-outputs", "--resume", folder(), "--quiet"});
  EXPECT_EQ(again.code(), 0);
  EXPECT_THAT(again.err(), HasSubstr("this run goes on without a recording: "));
}

TEST_F(RecordedCheckpoints, OfARecordedRunGoOnWithOtherDevicesAndNoRecording) {
  const std::string recording = (scratch_.path() / "run.rec").string();
  tool t(checkpointed({"--devices", "cpu:0,cpu:0", "--record", recording}));
  await_newer(t);
  t.signal(SIGKILL);
  t.code();
  tool again({"train", "--same-outputs", "--resume", folder(), "--quiet", "--devices", "cpu:0,cpu:0,cpu:0"});
  EXPECT_EQ(again.code(), 0);
  EXPECT_THAT(again.err(), HasSubstr("this run goes on without a recording: "));
  EXPECT_THAT(again.err(), HasSubstr("is of a run with other workers"));
}

TEST_F(RecordedCheckpoints, OfARunThatWasNotRecordedBeginNoRecording) {
  report(train({"--checkpoint", folder()}, "200"));
  tool t({"train", "--same-outputs", "--resume", folder(), "--quiet", "--steps", "400", "--record",
          (scratch_.path() / "run.rec").string()});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), HasSubstr("would lack what came before; leave --record out"));
}

} // namespace
} // namespace mailgrad
