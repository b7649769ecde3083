#include <mailgrad/files/replaced_file.hpp>
#include <mailgrad/tests/support/full_disk.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace mailgrad {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class ReplacedFile : public ::testing::Test {
protected:
  bool nothing_beside() const { return !fs::exists(file_ + ".partial"); }

  const scratch_folder folder_;
  const std::string file_ = folder_.write("old", "before").string();
  const fs::path link_ = folder_.path() / "link", other_ = folder_.write("other", "of somebody else");
};

TEST_F(ReplacedFile, TakesThePlaceOfTheOlderOneWhenItIsKept) {
  replaced_file f(file_);
  f << "after";
  f.flush();
  EXPECT_EQ(text_of(file_), "before");
  EXPECT_EQ(text_of(file_ + ".partial"), "after");
  EXPECT_EQ(f.keep(), 0);
  EXPECT_EQ(text_of(file_), "after");
  EXPECT_TRUE(nothing_beside());
}

/// What the stream could not write is written once more when it is closed, and belongs to the rest.
TEST_F(ReplacedFile, CanLeaveItsFirstBytes) {
  for (const bool is_full : {false, true}) {
    replaced_file f(file_);
    f << "what is whole" << std::flush;
    {
      std::optional<testing::full_disk> full;
      if (is_full) full.emplace(15);
      f << " and the rest";
      EXPECT_EQ(!f.flush(), is_full);
    }
    EXPECT_EQ(f.leave(13), file_ + ".partial");
    EXPECT_EQ(text_of(file_ + ".partial"), "what is whole");
    EXPECT_FALSE(replaced_file::is_being_written(file_ + ".partial"));
    EXPECT_EQ(text_of(file_), "before");
  }
  {
    replaced_file f(file_);
    f << "nothing of it";
    EXPECT_EQ(f.leave(0), "");
    EXPECT_TRUE(nothing_beside());
  }
  replaced_file device("/dev/full");
  device << "nothing" << std::flush;
  EXPECT_EQ(device.leave(7), "");
}

TEST_F(ReplacedFile, CanWaitForTheDiskBeforeItIsComplete) {
  replaced_file f(file_);
  f << "half";
  EXPECT_EQ(f.sync(), 0);
  EXPECT_EQ(text_of(file_ + ".partial"), "half");
  f << " and whole";
  EXPECT_EQ(f.keep(), 0);
  EXPECT_EQ(text_of(file_), "half and whole");
  replaced_file full("/dev/full");
  full << "nothing";
  EXPECT_EQ(full.sync(), ENOSPC);
}

TEST_F(ReplacedFile, WritesManyBytesAheadInTheirOrder) {
  std::string many(std::size_t{40} << 20, 'x');
  for (std::size_t i = 0; i < many.size(); i += 4093) many[i] = static_cast<char>(i % 251);
  replaced_file f(file_);
  f << "before ";
  f.write_ahead(std::as_bytes(std::span(many)));
  f.write_ahead({});
  f << " after";
  EXPECT_EQ(f.keep_on_disk(), 0);
  EXPECT_TRUE(text_of(file_) == "before " + many + " after");
}

TEST_F(ReplacedFile, WritesIntoADeviceAndSaysWhyItCannot) {
  replaced_file full("/dev/full");
  full << "more than fits";
  EXPECT_EQ(full.keep(), ENOSPC);
  const std::string many(std::size_t{3} << 20, 'x');
  replaced_file ahead("/dev/full");
  ahead.write_ahead(std::as_bytes(std::span(many)));
  EXPECT_EQ(ahead.keep(), ENOSPC);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  replaced_file nowhere((folder_.path() / "none" / "x").string());
  EXPECT_FALSE(nowhere.is_open());
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(ReplacedFile, LeavesTheOlderOneIfItIsNotKept) {
  { replaced_file(file_) << "after"; }
  EXPECT_EQ(text_of(file_), "before");
  EXPECT_TRUE(nothing_beside());
}

TEST_F(ReplacedFile, FollowsALink) {
  fs::create_symlink(file_, link_);
  replaced_file f(link_.string());
  f << "after";
  EXPECT_EQ(f.keep(), 0);
  EXPECT_TRUE(fs::is_symlink(link_));
  EXPECT_EQ(text_of(file_), "after");
}

TEST_F(ReplacedFile, ReplacesALinkInAFolderOfOurs) {
  for (const fs::path& target : {other_, fs::path("/dev/null")}) {
    fs::remove(link_);
    fs::create_symlink(target, link_);
    replaced_file f(link_.string(), replaced_file::if_taken::wait, replaced_file::if_link::replaced);
    f << "after";
    EXPECT_EQ(f.keep(), 0);
    EXPECT_FALSE(fs::is_symlink(link_));
    EXPECT_EQ(text_of(link_), "after");
  }
  EXPECT_EQ(text_of(other_), "of somebody else");
}

/// Somebody who may write into the folder could have another file be written.
TEST_F(ReplacedFile, FollowsNoLinkOfThePartialName) {
  fs::create_symlink(other_, replaced_file::partial(file_));
  replaced_file f(file_);
  EXPECT_FALSE(f.good());
  EXPECT_EQ(errno, ELOOP);
  f << "after";
  EXPECT_NE(f.keep(), 0);
  EXPECT_EQ(text_of(file_), "before");
  EXPECT_EQ(text_of(other_), "of somebody else");
}

TEST_F(ReplacedFile, HasThePermissionsOfTheOlderOne) {
  constexpr fs::perms of_owner = fs::perms::owner_read | fs::perms::owner_write;
  for (const fs::perms p : {of_owner | fs::perms::group_read | fs::perms::group_write, of_owner}) {
    fs::permissions(file_, p);
    replaced_file f(file_);
    f << "after";
    EXPECT_EQ(f.keep(), 0);
    EXPECT_EQ(fs::status(file_).permissions(), p);
  }
}

TEST_F(ReplacedFile, IsRefusedWhileAnotherWritesIt) {
  replaced_file first(file_, replaced_file::if_taken::fail);
  first << "the first";
  first.flush();
  EXPECT_TRUE(replaced_file::is_being_written(replaced_file::partial(file_)));
  {
    replaced_file second(file_, replaced_file::if_taken::fail);
    EXPECT_FALSE(second.is_open());
    EXPECT_EQ(errno, EWOULDBLOCK);
  }
  EXPECT_EQ(text_of(file_ + ".partial"), "the first") << "the second has touched nothing";
  EXPECT_EQ(first.keep(), 0);
  EXPECT_EQ(text_of(file_), "the first");
  EXPECT_EQ(replaced_file(file_, replaced_file::if_taken::fail).keep(), 0) << "the lock has ended";
}

TEST_F(ReplacedFile, TakesWhatADeadProcessLeft) {
  const fs::path left = folder_.write("old.partial", "of a process that was killed");
  EXPECT_FALSE(replaced_file::is_being_written(left.string()));
  replaced_file f(file_, replaced_file::if_taken::fail);
  f << "after";
  EXPECT_EQ(f.keep(), 0);
  EXPECT_EQ(text_of(file_), "after");
}

TEST_F(ReplacedFile, StaysWholeThoughManyWriteIt) {
  std::vector<std::thread> writers;
  for (char c = 'a'; c < 'i'; ++c)
    writers.emplace_back([this, c] {
      for (int round = 0; round < 20; ++round) {
        replaced_file f(file_);
        for (int i = 0; i < 50; ++i) f << std::string(1000, c) << std::flush;
        EXPECT_EQ(f.keep(), 0);
      }
    });
  for (std::thread& writer : writers) writer.join();
  const std::string text = text_of(file_);
  EXPECT_EQ(text, std::string(50'000, text.at(0)));
  EXPECT_TRUE(nothing_beside());
}

class OlderFile : public ::testing::Test {
protected:
  fs::path path(const char* name) const { return folder_.path() / name; }
  std::string bytes_of(const char* name) const { return text_of(path(name)); }

  const scratch_folder folder_;
};

TEST_F(OlderFile, IsKeptAsOftenAsThereIsANewOne) {
  for (const char* bytes : {"first", "second", "third"}) {
    folder_.write("a", bytes);
    keep_older(std::array{path("a")});
    EXPECT_FALSE(fs::exists(path("a"))) << bytes;
  }
  EXPECT_EQ(bytes_of("a.old"), "first");
  EXPECT_EQ(bytes_of("a.old-2"), "second");
  EXPECT_EQ(bytes_of("a.old-3"), "third");
}

TEST_F(OlderFile, HasTheEndingOfThoseItBelongsTo) {
  folder_.write("a", "rows");
  keep_older(std::array{path("a"), path("b")});
  folder_.write("a", "more rows");
  folder_.write("b", "curves");
  keep_older(std::array{path("a"), path("b")});
  EXPECT_EQ(bytes_of("a.old"), "rows");
  EXPECT_EQ(bytes_of("a.old-2"), "more rows");
  EXPECT_EQ(bytes_of("b.old-2"), "curves");
  EXPECT_FALSE(fs::exists(path("b.old")));
}

TEST_F(OlderFile, IsOneWithBytes) {
  folder_.write("empty", "");
  keep_older(std::array{path("empty"), path("nowhere"), folder_.path(), fs::path("/dev/null")});
  EXPECT_TRUE(fs::exists(path("empty")));
  EXPECT_FALSE(fs::exists(path("empty.old")));
  EXPECT_TRUE(fs::exists(folder_.path()));
}

TEST_F(OlderFile, TakesNoNameOfALinkThatLeadsNowhere) {
  fs::create_symlink("nowhere", path("a.old"));
  folder_.write("a", "bytes");
  keep_older(std::array{path("a")});
  EXPECT_TRUE(fs::is_symlink(path("a.old")));
  EXPECT_EQ(bytes_of("a.old-2"), "bytes");
}

} // namespace
} // namespace mailgrad
