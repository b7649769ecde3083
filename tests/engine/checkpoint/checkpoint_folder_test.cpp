#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointFolder : public ::testing::Test {
protected:
  void write(std::uint64_t steps) const {
    const auto run = std::make_shared<saved_fields>();
    run->field("steps", steps);
    write_checkpoint_file(folder_.path() / checkpoint_name(steps), {{"run", run}});
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& path : checkpoints_in(folder_.path())) all.push_back(path.filename());
    return all;
  }

  scratch_folder folder_;
};

TEST_F(CheckpointFolder, NamesFilesBySteps) {
  EXPECT_EQ(checkpoint_name(500), "checkpoint-0000000500.safetensors");
  EXPECT_EQ(checkpoint_name(123'456'789'012), "checkpoint-123456789012.safetensors");
}

TEST_F(CheckpointFolder, ListsTheNewestFirstAndNoOtherFiles) {
  for (const std::uint64_t steps : {90ULL, 123'456'789'012ULL, 1000ULL}) write(steps);
  for (const char* other :
       {"checkpoint-.safetensors", "checkpoint-12x.safetensors", "checkpoint-5.safetensors.partial",
        "weights.safetensors", "checkpoint--1.safetensors"})
    folder_.write(other, "");
  EXPECT_THAT(names(),
              ElementsAre(checkpoint_name(123'456'789'012), checkpoint_name(1000), checkpoint_name(90)));
}

TEST_F(CheckpointFolder, ReadsTheStepsInANameWhereItLiesThere) {
  write(500);
  EXPECT_EQ(steps_named_in(folder_.path(), folder_.path() / checkpoint_name(500)), 500U);
  EXPECT_EQ(steps_named_in(folder_.path() / ".", folder_.path() / "weights.safetensors"), 0U);
  EXPECT_EQ(steps_named_in(folder_.path().parent_path(), folder_.path() / checkpoint_name(500)), 0U);
  EXPECT_EQ(steps_named_in("", folder_.path() / checkpoint_name(500)), 0U);
  EXPECT_EQ(steps_named_in(folder_.path(), ""), 0U);
}

TEST_F(CheckpointFolder, TakesTheNewestThatIsWhole) {
  for (const std::uint64_t steps : {1, 2}) write(steps);
  folder_.write(checkpoint_name(3), "cut");
  const found_checkpoint found = newest_checkpoint(folder_.path());
  EXPECT_EQ(found.what.path().filename(), checkpoint_name(2));
  ASSERT_EQ(found.refused.size(), 1U);
  EXPECT_THAT(found.refused[0], HasSubstr(checkpoint_name(3)));
}

TEST_F(CheckpointFolder, TakesTheFileThatIsNamed) {
  for (const std::uint64_t steps : {1, 2}) write(steps);
  EXPECT_EQ(newest_checkpoint(folder_.path() / checkpoint_name(1)).what.path().filename(),
            checkpoint_name(1));
}

TEST_F(CheckpointFolder, SaysWhyThereIsNone) {
  testing::expect_refused(testing::misuse{"empty", [&] { newest_checkpoint(folder_.path()); },
                                          "expected a checkpoint, found none"});
  std::filesystem::create_directories(folder_.path() / "lenet");
  folder_.write("lenet/" + checkpoint_name(3), "");
  testing::expect_refused(
      testing::misuse{"the folder above", [&] { newest_checkpoint(folder_.path()); },
                      "found none in this folder; '" + (folder_.path() / "lenet").string() + "' has some"});
  folder_.write(checkpoint_name(3), "cut");
  testing::expect_refused(
      {{"damaged", [&] { newest_checkpoint(folder_.path()); },
        "no checkpoint that can be read; the newest: "},
       {"no folder", [&] { newest_checkpoint(folder_.path() / "nowhere"); }, "No such file"}});
}

TEST_F(CheckpointFolder, KeepsTheNewestThatAreNotAhead) {
  for (const std::uint64_t steps : {10, 20, 30, 40, 99}) write(steps);
  remove_older_checkpoints(folder_.path(), 40, 2);
  EXPECT_THAT(names(), ElementsAre(checkpoint_name(99), checkpoint_name(40), checkpoint_name(30)))
      << "99 is of a run that went on from an older one; it is not this run's to remove";
}

/// A run that is killed again and again would fill the disk with them.
TEST_F(CheckpointFolder, KeepsNoPartOfAKilledRun) {
  write(10);
  folder_.write(checkpoint_name(20) + ".partial", "what was written of it");
  folder_.write("mine.partial", "");
  replaced_file written((folder_.path() / checkpoint_name(30)).string());
  remove_older_checkpoints(folder_.path(), 10, 3);
  std::vector<std::string> left;
  for (const auto& file : std::filesystem::directory_iterator(folder_.path()))
    left.push_back(file.path().filename());
  EXPECT_THAT(left, ::testing::UnorderedElementsAre(checkpoint_name(10), checkpoint_name(30) + ".partial",
                                                    "mine.partial"))
      << "another run may be writing 30";
}

TEST_F(CheckpointFolder, MakesRoomByItsOldestButNeverByTheLastThatIsWhole) {
  for (const std::uint64_t steps : {10, 20, 30, 99}) write(steps);
  EXPECT_EQ(make_room(folder_.path(), 40), room_made::of_oldest);
  EXPECT_THAT(names(), ElementsAre(checkpoint_name(99), checkpoint_name(30), checkpoint_name(20)));
  folder_.write(checkpoint_name(30), "cut");
  EXPECT_EQ(make_room(folder_.path(), 40), room_made::none) << "only 20 is whole";
  write(30);
  folder_.write(checkpoint_name(20), "cut");
  EXPECT_EQ(make_room(folder_.path(), 40), room_made::of_oldest);
  EXPECT_EQ(make_room(folder_.path(), 40), room_made::none);
  EXPECT_THAT(names(), ElementsAre(checkpoint_name(99), checkpoint_name(30)));
}

TEST_F(CheckpointFolder, MakesRoomByWhatAKilledRunLeftFirst) {
  for (const std::uint64_t steps : {10, 20}) write(steps);
  folder_.write(checkpoint_name(30) + ".partial", "what was written of it");
  EXPECT_EQ(make_room(folder_.path(), 40), room_made::of_killed);
  EXPECT_EQ(names().size(), 2U);
}

TEST_F(CheckpointFolder, IsMadeAndTried) {
  const auto inner = folder_.path() / "a" / "b";
  { const folder_lock lock = prepare_checkpoint_folder(inner, {}); }
  EXPECT_TRUE(std::filesystem::is_empty(inner));
}

TEST_F(CheckpointFolder, IsThatOfOneRunAtATime) {
  write(5);
  const auto prepare = [&] {
    return prepare_checkpoint_folder(folder_.path(), folder_.path() / checkpoint_name(5));
  };
  {
    const folder_lock first = prepare();
    testing::expect_refused({{"a second run", [&] { const folder_lock second = prepare(); },
                              "another run keeps its checkpoints there"}});
  }
  EXPECT_NO_THROW(const folder_lock third = prepare());
}

TEST_F(CheckpointFolder, KnowsWhetherACheckpointIsStillTheNewest) {
  for (const std::uint64_t steps : {10, 20}) write(steps);
  const auto require = [&](std::uint64_t steps) { require_newest(folder_.path() / checkpoint_name(steps)); };
  EXPECT_NO_THROW(require(20));
  testing::expect_refused({{"an older one", [&] { require(10); },
                            "another process has written " + checkpoint_name(20) + " there meanwhile"}});
  folder_.write(checkpoint_name(30), "cut");
  EXPECT_NO_THROW(require(20)) << "nobody can go on from what is damaged";
}

TEST_F(CheckpointFolder, MixesNoTwoRuns) {
  write(5);
  const auto elsewhere = folder_.path() / "elsewhere";
  const auto prepare = [](const std::filesystem::path& folder, const std::filesystem::path& resumed) {
    const folder_lock lock = prepare_checkpoint_folder(folder, resumed);
  };
  EXPECT_NO_THROW(prepare(folder_.path(), folder_.path() / "." / checkpoint_name(5)));
  EXPECT_NO_THROW(prepare(elsewhere, folder_.path() / checkpoint_name(5)));
  folder_.write("file", "");
  testing::expect_refused(
      {{"another run", [&] { prepare(folder_.path(), {}); }, "holds checkpoints of an earlier run"},
       {"a run of another folder", [&] { prepare(folder_.path(), elsewhere / checkpoint_name(7)); },
        "holds checkpoints of an earlier run"},
       {"a file", [&] { prepare(folder_.path() / "file", {}); }, "cannot be written"}});
}

} // namespace
} // namespace mailgrad
