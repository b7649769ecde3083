#include <mailgrad/actors/run/checkpointer.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <cerrno>
#include <filesystem>

namespace mailgrad {
namespace {

using ::testing::ElementsAre, ::testing::HasSubstr;

/// Writes into a folder on a disk that has room for so many checkpoints, the one that is being written among
/// them.
class CheckpointWriter : public testing::DeterministicTest {
protected:
  checkpoint_written write(std::uint64_t steps) {
    const auto fields = std::make_shared<saved_fields>();
    fields->field("steps", steps);
    return ask<checkpoint_written>(writer_, write_checkpoint{steps, steps, {{"run", fields}}})
        .heard<checkpoint_written>()
        .at(0);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& path : checkpoints_in(folder_.path())) all.push_back(path.filename());
    return all;
  }

  scratch_folder folder_;
  std::size_t room_ = 3;
  int why_ = ENOSPC; ///< another cannot be written
  caf::actor writer_ = start<checkpoint_writer>(checkpoint_writer_options{
      folder_.path().string(), 3, [this](const std::filesystem::path& file, const checkpoint_parts& parts) {
        if (checkpoints_in(folder_.path()).size() >= room_) throw_unwritable(file, why_);
        return write_checkpoint_file(file, parts);
      }});
};

TEST_F(CheckpointWriter, GoesOnWithTheNewestOnAFullDisk) {
  for (const std::uint64_t steps : {10, 20, 30}) EXPECT_FALSE(write(steps).made_room);
  for (const std::uint64_t steps : {40, 50}) {
    const checkpoint_written x = write(steps);
    EXPECT_EQ(x.failure, "");
    EXPECT_TRUE(x.made_room);
  }
  EXPECT_THAT(names(), ElementsAre(checkpoint_name(50), checkpoint_name(40), checkpoint_name(30)));
}

TEST_F(CheckpointWriter, LeavesTheLastThatIsWhole) {
  write(10);
  room_ = 1;
  for (const std::uint64_t steps : {20, 30}) {
    const checkpoint_written x = write(steps);
    EXPECT_THAT(x.failure, HasSubstr("No space left on device"));
    EXPECT_FALSE(x.made_room);
  }
  EXPECT_THAT(names(), ElementsAre(checkpoint_name(10)));
}

/// Another program takes the room that is made.
TEST_F(CheckpointWriter, RemovesOneAtMostWhereThatDoesNotHelp) {
  for (const std::uint64_t steps : {10, 20, 30}) write(steps);
  room_ = 0;
  for (const std::uint64_t steps : {40, 50, 60})
    EXPECT_THAT(write(steps).failure, HasSubstr("No space left on device"));
  EXPECT_THAT(names(), ElementsAre(checkpoint_name(30), checkpoint_name(20)));
}

TEST_F(CheckpointWriter, RemovesNoneForAnotherFailure) {
  for (const std::uint64_t steps : {10, 20, 30}) write(steps);
  why_ = EIO;
  EXPECT_THAT(write(40).failure, HasSubstr("Input/output error"));
  EXPECT_EQ(names().size(), 3U);
}

} // namespace
} // namespace mailgrad
