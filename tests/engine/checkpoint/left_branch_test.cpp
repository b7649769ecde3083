#include <mailgrad/engine/checkpoint/left_branch.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_EQ(best_weights_in(left.folder)->test.steps, 29U);
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

} // namespace
} // namespace mailgrad
