#include <mailgrad/actors/run/run_recorder.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <filesystem>

namespace mailgrad {
using messaging::kill;

namespace {

using ::testing::ElementsAre, ::testing::HasSubstr, ::testing::IsEmpty;

// With the recorder on a thread of its own, and a thread that blocks for it.
class RunRecorder : public testing::DeterministicTest {
protected:
  const scratch_folder folder_;
  const std::string path_ = (folder_.path() / "run.rec").string();
  testing::listener<end_recording> feeder_ = listen<end_recording>();
};

TEST_F(RunRecorder, ReturnsThoughTheFeederIsDead) {
  kill(feeder_.actor());
  run();
  run_recorder r(system(), path_, {1, 1, {}, {}}, nullptr, {time_});
  r.finish(feeder_.actor(), {}, {});
  EXPECT_THAT(r.failure(instant{0}), HasSubstr("the feeder was lost"));
  EXPECT_FALSE(std::filesystem::exists(path_)) << "nothing to be taken for a whole recording";
}

TEST_F(RunRecorder, ReturnsThoughTheRecorderIsDead) {
  run_recorder r(system(), path_, {1, 1, {}, {}}, nullptr, {time_});
  kill(r.actor());
  r.finish({}, {}, {});
  EXPECT_THAT(r.failure(instant{0}), HasSubstr("the recorder was lost"));
}

TEST_F(RunRecorder, CompletesTheFile) {
  run_recorder r(system(), path_, {2, 1, {}, {"mailgrad", "train"}}, nullptr, {time_});
  run_outcome outcome;
  outcome.lost = {false, true};
  training_report report;
  report.ended = "completed";
  report.parameters_sha256 = "ab12";
  r.finish({}, outcome, report);
  EXPECT_THAT(r.failure(instant{0}), IsEmpty());
  EXPECT_EQ(r.account(instant{0}).bytes, std::filesystem::file_size(path_));
  const recording read = read_recording(path_);
  EXPECT_EQ(read.header.workers, 2U);
  EXPECT_THAT(read.header.words, ElementsAre("mailgrad", "train"));
  EXPECT_EQ(read.end.parameters_sha256, "ab12");
  EXPECT_THAT(read.end.lost, ElementsAre(1));
  r.finish({}, outcome, report); // a second call changes nothing
  EXPECT_THAT(r.failure(instant{0}), IsEmpty());
}

TEST_F(RunRecorder, RefusesAPathThatCannotBeWritten) {
  EXPECT_THROW(run_recorder(system(), "/there/is/no/such/folder", {1, 1, {}, {}}, nullptr, {time_}),
               std::system_error);
}

/// A feeder that does not answer would hold the caller for ever.
TEST_F(RunRecorder, AsksNoFeederOfARunThatFailed) {
  run_recorder r(system(), path_, {1, 1, {}, {}}, nullptr, {time_});
  run_outcome outcome;
  outcome.how = run_outcome::ending::failed;
  r.finish(feeder_.actor(), outcome, {});
  run();
  EXPECT_THAT(feeder_.heard<end_recording>(), IsEmpty());
  EXPECT_THAT(r.failure(instant{0}), IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST(EndOfARecording, TellsWhatTheRunReports) {
  run_outcome outcome;
  outcome.lost = {true, false, true};
  training_report report;
  report.ended = "stopped";
  report.why = "the user wanted it";
  report.parameters_sha256 = "ab12";
  const recording_end e = end_of(outcome, report);
  EXPECT_EQ(e.ended, "stopped");
  EXPECT_EQ(e.why, "the user wanted it");
  EXPECT_THAT(e.lost, ElementsAre(0, 2));
  EXPECT_THAT(e.switches, IsEmpty()) << "each was written when it happened";
  EXPECT_EQ(e.parameters_sha256, "ab12");
}

} // namespace
} // namespace mailgrad
