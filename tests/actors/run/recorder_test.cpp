#include <mailgrad/actors/run/run_recorder.hpp>
#include <mailgrad/tests/actors/only.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <gmock/gmock.h>

#include <cerrno>
#include <limits>
#include <sstream>

namespace mailgrad {
using messaging::kill;

namespace {

using mailgrad::testing::only;
using ::testing::ElementsAre, ::testing::HasSubstr, ::testing::IsEmpty, ::testing::SizeIs;

/// A recorder, and a feeder that answers only when the test does.
class Recorder : public testing::DeterministicTest {
protected:
  end_recording ending(const caf::actor& feeder) const {
    return {std::make_shared<recording_end>(recording_end{"completed", "", {}, {}, "ab12"}), feeder};
  }
  /// A checkpoint, with what the coordinator gets of it.
  testing::listener<checkpoint_part> begin_checkpoint(std::uint64_t number) {
    return ask<checkpoint_part>(recorder_, mark_recording{number});
  }
  void mark(std::uint64_t number) {
    tell(recorder_, recording_marked{number, {0}});
    tell(recorder_, recording_marked{number, feeder_of_recording});
  }
  recording recorded() const { return parse_recording(bytes_.view(), "memory"); }

  static recording_cut cut_of(const std::shared_ptr<const saved_fields>& part) {
    saved_fields read(part->text(), part->arrays());
    recording_cut cut;
    read.field(recording_part, cut);
    return cut;
  }

  recorder_options options(recording_writer::file_calls calls) {
    auto bytes = std::make_unique<std::ostream>(&bytes_);
    auto file = std::make_shared<recording_writer>(std::move(bytes), "run.rec",
                                                   recording_header{1, 1, {}, {}}, std::move(calls));
    return {std::move(file), [this](const std::string& why) { ends_.push_back(why); }, recording_cut(1)};
  }

  std::stringbuf bytes_;
  std::vector<std::string> ends_;
  std::uint64_t syncs_ = 0;
  int sync_failure_ = 0;
  testing::listener<end_recording> feeder_ = listen<end_recording>();
  caf::actor recorder_ = start<recorder>(options({{}, [this] {
                                                    ++syncs_;
                                                    return sync_failure_;
                                                  }}));
};

TEST_F(Recorder, WaitsForWhatTheFeederHasNotTold) {
  tell(recorder_, ending(feeder_.actor()));
  EXPECT_THAT(ends_, IsEmpty());
  ASSERT_THAT(feeder_.heard<end_recording>(), SizeIs(1));
  tell(recorder_, order_noted{0, {}, {{{0}, 7}}});
  tell(recorder_, ending({}));
  EXPECT_THAT(ends_, ElementsAre(""));
  EXPECT_THAT(recorded().batches.at(0), ElementsAre(7));
  kill(feeder_.actor());
  run();
  EXPECT_THAT(ends_, SizeIs(1)) << "told once";
}

TEST_F(Recorder, EndsIfTheFeederDiesBeforeItHasTold) {
  tell(recorder_, ending(feeder_.actor()));
  kill(feeder_.actor());
  run();
  EXPECT_THAT(ends_, ElementsAre(HasSubstr("the feeder was lost")));
}

TEST_F(Recorder, EndsIfTheFeederDiedLongAgo) {
  kill(feeder_.actor());
  run();
  tell(recorder_, ending(feeder_.actor()));
  EXPECT_THAT(ends_, ElementsAre(HasSubstr("the feeder was lost")));
}

TEST_F(Recorder, TellsOfACheckpointWhenWhatLiesBeforeItIsOnTheDisk) {
  for (const std::uint64_t number : {1U, 2U}) {
    auto coordinator = begin_checkpoint(number);
    EXPECT_EQ(syncs_, number - 1);
    mark(number);
    ASSERT_THAT(coordinator.heard<checkpoint_part>(), SizeIs(1));
    EXPECT_EQ(syncs_, number);
    const auto fields = coordinator.heard<checkpoint_part>()[0].fields;
    EXPECT_EQ(cut_of(fields).failed, number == 2);
    sync_failure_ = ENOSPC;
  }
}

/// A parameter host may say what it likes. It must not spoil the checkpoints of the run.
TEST_F(Recorder, TakesNoMarkerOfACheckpointThatCannotHaveBegun) {
  const auto claim = [this](std::uint64_t number) { tell(recorder_, recording_marked{number, {0}}); };
  for (std::uint64_t number = 1; number <= 3; ++number) {
    claim(std::numeric_limits<std::uint64_t>::max());
    claim(number + 1);
    auto coordinator = begin_checkpoint(number);
    claim(number + 1);
    claim(number - 1);
    EXPECT_THAT(coordinator.heard<checkpoint_part>(), IsEmpty());
    mark(number);
    EXPECT_EQ(only(coordinator.heard<checkpoint_part>()).number, number);
    mark(number);
    EXPECT_THAT(coordinator.heard<checkpoint_part>(), SizeIs(1)) << "told once";
  }
}

/// What comes behind the first marker of a shard lies behind the checkpoint, whoever marks again.
TEST_F(Recorder, CountsTheEntriesBeforeTheFirstMarker) {
  const order_entry entry{order_entry::kind::gradient, {0}, {1}};
  auto coordinator = begin_checkpoint(1);
  tell(recorder_, order_noted{{0}, {entry}, {}});
  tell(recorder_, recording_marked{1, {0}});
  tell(recorder_, order_noted{{0}, {entry}, {}});
  mark(1);
  EXPECT_THAT(cut_of(only(coordinator.heard<checkpoint_part>()).fields).entries, ElementsAre(1));
}

/// Gives the file up when a part fails, and not at the end of the run.
TEST_F(Recorder, GivesUpOnceWhenTheDiskIsFull) {
  std::vector<std::string> said;
  std::vector<std::uint64_t> left;
  const auto give_up_file = [&](std::uint64_t bytes) {
    left.push_back(bytes);
    return "run.rec.partial";
  };
  const auto room = [] { return std::uint64_t{500}; };
  recorder_options full = options({{}, [] { return ENOSPC; }, give_up_file, room});
  full.on_early_end = [&](const recording_account& what) { said.push_back(format_recording(what)); };
  full.room = room;
  const auto on_full = start<recorder>(std::move(full));
  const order_entry entry{order_entry::kind::gradient, {0}, {1}};
  tell(on_full, order_noted{{0}, {entry}, {}});
  EXPECT_THAT(said, IsEmpty());
  for (const std::uint64_t number : {1U, 2U}) { // a checkpoint waits for the disk
    auto coordinator = ask<checkpoint_part>(on_full, mark_recording{number});
    tell(on_full, recording_marked{number, {0}});
    tell(on_full, recording_marked{number, feeder_of_recording});
    EXPECT_TRUE(cut_of(only(coordinator.heard<checkpoint_part>()).fields).failed);
    EXPECT_THAT(said, ElementsAre(HasSubstr("No space left on device; all of that is in 'run.rec.partial'")));
  }
  tell(on_full, order_noted{{0}, {entry}, {}});
  tell(on_full, ending({}));
  EXPECT_THAT(said, SizeIs(1));
  EXPECT_THAT(left, SizeIs(1));
  EXPECT_THAT(ends_, ElementsAre(HasSubstr("No space left on device")));
}

} // namespace
} // namespace mailgrad
