#include <mailgrad/tests/engine/record/small_recording.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/record/recording.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

// Recordings as files: by which names, of whom, and what is left of them.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::small_deals;
using testing::small_end;
using testing::small_entries;
using testing::small_header;
using testing::small_recording;
using testing::written;

TEST(RecordingFiles, GoesThroughAFile) {
  const scratch_folder folder;
  const std::string path = (folder.path() / "run.rec").string();
  const auto writer = create_recording(path, small_header());
  writer->add_switch(small_end().switches[0]);
  for (std::uint32_t s = 0; s < 2; ++s) writer->add_entries(s, small_entries()[s]);
  writer->add_deals(small_deals);
  writer->end(small_end());
  EXPECT_EQ(read_recording(path).end.parameters_sha256, small_end().parameters_sha256);
}

TEST(RecordingFiles, IsWrittenByOneRunAtATime) {
  const scratch_folder folder;
  const std::string path = (folder.path() / "run.rec").string();
  const auto first = create_recording(path, small_header());
  try {
    create_recording(path, small_header());
    FAIL() << "both write into one file";
  } catch (const recording_error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr(path), HasSubstr("another run is recording into it (process ")));
  }
  EXPECT_THROW(read_recording(path + ".partial"), recording_error) << "it is being written";
  first->add_entries(0, small_entries()[0]);
  first->end({"completed", "", {}, {}, ""});
  EXPECT_EQ(read_recording(path).entries[0].size(), 8U);
}

TEST(RecordingFiles, OfAKilledRunIsReadByItsName) {
  const scratch_folder folder;
  const std::string bytes = written(small_header(), small_entries(), std::nullopt);
  folder.write("run.rec.partial", bytes.substr(0, bytes.size() - 1));
  const std::string path = (folder.path() / "run.rec").string();
  EXPECT_EQ(read_recording(path + ".partial").entries[0].size(), 8U);
  try {
    read_recording(path);
    FAIL() << "it is not there";
  } catch (const std::system_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("run.rec.partial'")) << "what else there is";
  }
  folder.write("run.rec.partial", small_recording());
  EXPECT_FALSE(read_recording(path + ".partial").killed) << "killed after its last word";
}

TEST(RecordingFiles, OfAKilledRunOutlivesTheNextRun) {
  const scratch_folder folder;
  const std::string path = (folder.path() / "run.rec").string();
  const std::string bytes = written(small_header(), small_entries(), std::nullopt);
  folder.write("run.rec.partial", bytes.substr(0, bytes.size() - 1));
  create_recording(path, small_header())->end(small_end());
  EXPECT_FALSE(read_recording(path).killed);
  EXPECT_EQ(read_recording(path + ".killed").entries[0].size(), 8U);
  EXPECT_TRUE(read_recording(path + ".killed").killed);
  folder.write("run.rec.partial", "no recording");
  create_recording(path, small_header())->end(small_end());
  EXPECT_TRUE(read_recording(path + ".killed").killed) << "nothing else takes its place";
  folder.write("run.rec.partial", bytes.substr(0, bytes.size() / 2));
  create_recording(path, small_header())->end(small_end());
  EXPECT_EQ(read_recording(path + ".killed").entries[0].size(), 8U) << "nor does a later one";
  folder.write("run.rec.partial", bytes);
  std::filesystem::remove(path + ".killed");
  const int reader = open((path + ".partial").c_str(), O_RDONLY);
  ASSERT_EQ(flock(reader, LOCK_SH), 0);
  EXPECT_THROW(create_recording(path, small_header()), recording_error)
      << "what cannot be kept is not overwritten";
  close(reader);
}

/// The run that goes on has another recording to go on with.
TEST(RecordingFiles, OfAKilledRunOutlivesARunThatGoesOn) {
  const scratch_folder folder;
  const std::string path = (folder.path() / "run.rec").string();
  const std::string bytes = written(small_header(), small_entries(), std::nullopt);
  const recording before = parse_recording(small_recording(), "other.rec");
  folder.write("run.rec.partial", bytes.substr(0, bytes.size() - 1));
  continue_recording(path, small_header(), before)->end(small_end());
  EXPECT_FALSE(read_recording(path).killed);
  ASSERT_TRUE(std::filesystem::exists(path + ".killed"));
  EXPECT_TRUE(read_recording(path + ".killed").killed);
}

/// Nothing but it has what lies before the checkpoint.
TEST(RecordingFiles, OfARunThatGoesOnStaysIfTheRunIsGivenUp) {
  const scratch_folder folder;
  const std::string path = (folder.path() / "run.rec").string();
  folder.write("run.rec.partial", small_recording());
  const recording before = read_recording(path + ".partial");
  continue_recording(path, small_header(), before).reset();
  EXPECT_EQ(read_recording(path + ".partial").entries, before.entries);
  create_recording(path + ".new", small_header()).reset();
  EXPECT_FALSE(std::filesystem::exists(path + ".new.partial"))
      << "one that has just begun has nothing to keep";
}

/// It says why, and does so without its recording.
TEST(RecordingFiles, IsRefusedToARunThatGoesOnIfItCannotBeWritten) {
  const recording before = parse_recording(small_recording(), "other.rec");
  for (const char* path : {"/no/such/folder/run.rec", "/dev/full"})
    EXPECT_THROW(continue_recording(path, small_header(), before), recording_error) << path;
}

TEST(RecordingFiles, IsRefusedByItsFirstWordsHoweverMuchFollows) {
  EXPECT_THROW(read_recording("/dev/zero"), recording_error) << "to read all of it takes for ever";
}

TEST(RecordingFiles, SaysSoIfAFileCannotBeReadOrWritten) {
  EXPECT_THROW(read_recording("/no/such/file"), std::system_error);
  EXPECT_THROW(read_recording("/"), std::exception);
  EXPECT_THROW(create_recording("/no/such/folder/run.rec", small_header()), std::system_error);
  EXPECT_THAT([] { create_recording("/dev/full", small_header()); },
              ::testing::ThrowsMessage<std::system_error>(
                  AllOf(HasSubstr("/dev/full"), HasSubstr("cannot be written: No space left"))));
}

} // namespace
} // namespace mailgrad
