#include <mailgrad/engine/checkpoint/best_weights.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

class LeftBranch : public ::testing::Test {
protected:
  void write(std::uint64_t steps) const {
    const auto run = std::make_shared<saved_fields>();
    run->field("steps", steps);
    write_checkpoint_file(at(steps), {{"run", run}});
  }
  void test(std::uint64_t steps) {
    best_.offer({.steps = steps, .loss = 1.0 / static_cast<double>(steps)}, {});
  }
  std::filesystem::path at(std::uint64_t steps) const { return folder_.path() / checkpoint_name(steps); }
  static std::set<std::string> files_in(const std::filesystem::path& folder) {
    std::set<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(folder))
      if (file.is_regular_file()) names.insert(file.path().filename());
    return names;
  }

  scratch_folder folder_;
  best_weights best_{folder_.path()};
};

TEST_F(LeftBranch, KeepsItsRecordingUnderAnotherName) {
  for (const std::uint64_t steps : {10, 20}) write(steps);
  const std::string recording = folder_.write("run.rec", "turns").string();
  EXPECT_EQ(leave_recording(at(20), {.steps = 20}, recording), "") << "nothing came later";
  EXPECT_EQ(leave_recording(at(10), {.steps = 10}, folder_.path() / "none"), "");
  const std::string name = recording + ".left-after-0000000010";
  EXPECT_EQ(leave_recording(at(10), {.steps = 10}, recording),
            "set aside in " + name + ": the recording of the run that is left");
  std::filesystem::remove(recording);
  EXPECT_EQ(std::filesystem::file_size(name), 5U);
  folder_.write("run.rec", "others");
  leave_recording(at(10), {.steps = 10}, recording);
  EXPECT_EQ(std::filesystem::file_size(name + "-2"), 6U) << "the first is not written over";
}

/// A checkpoint that somebody has given another name tells its steps.
TEST_F(LeftBranch, HasTheStepsOfACheckpointOfAnyName) {
  for (const std::uint64_t steps : {10, 20, 30}) write(steps);
  std::filesystem::rename(at(20), folder_.path() / "mine.safetensors");
  const left_branch left = leave_later_branch(folder_.path() / "mine.safetensors", {.steps = 20});
  EXPECT_EQ(left.folder.filename(), "left-after-0000000020");
  EXPECT_EQ(left.checkpoints, 1U);
}

TEST_F(LeftBranch, IsWholeInAFolderOfItsOwn) {
  for (const std::uint64_t steps : {10, 20, 30}) {
    test(steps - 1);
    write(steps);
  }
  const left_branch left = leave_later_branch(at(20), {.steps = 20});
  EXPECT_EQ(left.folder, folder_.path() / "left-after-0000000020");
  EXPECT_THAT(files_in(folder_.path()), ::testing::ElementsAre("best-weights-0000000009.safetensors",
                                                               "best-weights-0000000019.safetensors",
                                                               checkpoint_name(10), checkpoint_name(20)));
  EXPECT_THAT(files_in(left.folder), ::testing::ElementsAre("best-weights-0000000019.safetensors",
                                                            best_weights::file_name, checkpoint_name(30)))
      << "those of 19 are of both branches";
  EXPECT_EQ(best_weights_in(left.folder).best->test.steps, 29U);
  EXPECT_EQ(newest_checkpoint(left.folder).what.path().filename(), checkpoint_name(30));
  EXPECT_EQ(in_words(left),
            "set aside in " + left.folder.string() +
                ": 1 later checkpoint and the best weights, which are of a later test; 'mailgrad "
                "train --resume " +
                left.folder.string() + "' goes on from there");
}

TEST_F(LeftBranch, ReplacesNoOther) {
  for (const std::uint64_t steps : {10, 20}) write(steps);
  const std::filesystem::path first = leave_later_branch(at(10), {.steps = 10}).folder;
  write(20);
  EXPECT_EQ(leave_later_branch(at(10), {.steps = 10}).folder, first.string() + "-2");
  EXPECT_THAT(files_in(first), ::testing::ElementsAre(checkpoint_name(20)));
}

TEST_F(LeftBranch, IsNoneBehindTheNewestCheckpoint) {
  test(9);
  for (const std::uint64_t steps : {10, 20}) write(steps);
  const left_branch left = leave_later_branch(at(20), {.steps = 20});
  EXPECT_TRUE(left.folder.empty());
  EXPECT_EQ(in_words(left), "");
  EXPECT_EQ(files_in(folder_.path()).size(), 3U);
}

/// A run that was killed may have had a better test since its last checkpoint.
TEST_F(LeftBranch, MayBeNoMoreThanWeights) {
  write(10);
  test(15);
  const left_branch left = leave_later_branch(at(10), {.steps = 10});
  EXPECT_EQ(in_words(left),
            "set aside in " + left.folder.string() + ": the best weights, which are of a later test");
  folder_.write(checkpoint_name(30), "damaged");
  EXPECT_THAT(in_words(leave_later_branch(at(10), {.steps = 10})),
              ::testing::EndsWith(": 1 later checkpoint"))
      << "nothing goes on from there";
}

/// What is told of a folder does not depend on where a process ended: before the first move all is as it was,
/// and then a resume of the folder goes on from the checkpoint that was asked for.
TEST_F(LeftBranch, IsCompletedIfItsProcessIsKilledBetweenTwoMoves) {
  for (int killed_after = 1;; ++killed_after) {
    std::filesystem::remove_all(folder_.path());
    std::filesystem::create_directory(folder_.path());
    best_weights anew(folder_.path());
    for (const std::uint64_t steps : {10, 20, 30}) {
      anew.offer({.steps = steps - 1, .loss = 1.0 / static_cast<double>(steps)}, {});
      write(steps);
    }
    const pid_t process = fork();
    if (process == 0) {
      int steps = 0;
      leave_later_branch(at(10), {.steps = 10}, [&] {
        if (++steps == killed_after) raise(SIGKILL);
      });
      _exit(0);
    }
    int status = 0;
    waitpid(process, &status, 0);
    if (WIFEXITED(status)) {
      EXPECT_EQ(killed_after, 8) << "a plan, a folder, four files and its name are seven changes";
      break;
    }
    EXPECT_EQ(newest_checkpoint(folder_.path()).what.path(), at(10)) << killed_after;
    EXPECT_NO_THROW(require_newest(at(10))) << killed_after;
    if (std::filesystem::exists(at(30))) {
      EXPECT_THAT(complaint([&] { newest_checkpoint(at(30)); }), ::testing::HasSubstr("was being set aside"));
    }
    const left_branch left = complete_left_branch(folder_.path());
    EXPECT_THAT(files_in(folder_.path()),
                ::testing::ElementsAre("best-weights-0000000009.safetensors", checkpoint_name(10)))
        << killed_after;
    EXPECT_THAT(files_in(left.folder),
                ::testing::ElementsAre("best-weights-0000000009.safetensors",
                                       "best-weights-0000000019.safetensors", best_weights::file_name,
                                       checkpoint_name(20), checkpoint_name(30)))
        << killed_after;
    EXPECT_TRUE(left.goes_on && left.best);
    EXPECT_EQ(left.checkpoints, 2U);
    EXPECT_TRUE(complete_left_branch(folder_.path()).folder.empty()) << "once";
  }
}

/// A folder of the name of a file is in its way.
TEST_F(LeftBranch, IsNoneIfAFileCannotBeMoved) {
  for (const std::uint64_t steps : {10, 20, 30}) {
    test(steps - 1);
    write(steps);
  }
  const auto before = files_in(folder_.path());
  int changes = 0;
  EXPECT_THAT(complaint([&] {
                leave_later_branch(at(10), {.steps = 10}, [&] {
                  if (++changes == 3)
                    std::filesystem::create_directory(folder_.path() / "left-after-0000000010.partial" /
                                                      checkpoint_name(20));
                });
              }),
              checkpoint_name(20) + ": cannot be written: Is a directory");
  EXPECT_EQ(files_in(folder_.path()), before);
  EXPECT_EQ(newest_checkpoint(folder_.path()).what.path(), at(30)) << "nothing was set aside";
  std::filesystem::remove_all(folder_.path() / "left-after-0000000010.partial");
  EXPECT_EQ(leave_later_branch(at(10), {.steps = 10}).checkpoints, 2U);
}

/// Whoever may write into the folder could make one once the plan is written.
TEST_F(LeftBranch, FollowsNoLinkOfItsName) {
  for (const std::uint64_t steps : {10, 20}) write(steps);
  const auto before = files_in(folder_.path());
  const std::filesystem::path elsewhere = folder_.path() / "of somebody else";
  std::filesystem::create_directory(elsewhere);
  int changes = 0;
  EXPECT_THAT(complaint([&] {
                leave_later_branch(at(10), {.steps = 10}, [&] {
                  if (++changes == 1)
                    std::filesystem::create_directory_symlink(elsewhere, folder_.path() /
                                                                             "left-after-0000000010.partial");
                });
              }),
              ::testing::HasSubstr("Not a directory"));
  EXPECT_EQ(files_in(folder_.path()), before);
  EXPECT_TRUE(files_in(elsewhere).empty());
}

TEST_F(LeftBranch, IsToldByAFileThatNamesNothingElsewhere) {
  write(10);
  folder_.write(std::string(set_aside::file_name), "half of it");
  EXPECT_THAT(complaint([&] { newest_checkpoint(folder_.path()); }),
              ::testing::HasSubstr("expected the files that are being set aside"));
  saved_fields fields;
  set_aside forged{"left", {"../" + checkpoint_name(10)}};
  fields.field("set aside", forged);
  folder_.write(std::string(set_aside::file_name), fields.text());
  EXPECT_THAT(complaint([&] { complete_left_branch(folder_.path()); }),
              ::testing::HasSubstr("expected names of files, found '../"));
}

} // namespace
} // namespace mailgrad
