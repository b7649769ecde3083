#include <mailgrad/tests/data/scratch_files.hpp>

#include <mailgrad/data/replaced_file.hpp>

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace mailgrad {
namespace {

class ReplacedFile : public ::testing::Test {
protected:
  static std::string text_of(const std::filesystem::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  bool nothing_beside() const { return !std::filesystem::exists(file_ + ".partial"); }

  const scratch_folder folder_;
  const std::string file_ = folder_.write("old", "before").string();
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

TEST_F(ReplacedFile, LeavesTheOlderOneIfItIsNotKept) {
  { replaced_file(file_) << "after"; }
  EXPECT_EQ(text_of(file_), "before");
  EXPECT_TRUE(nothing_beside());
}

TEST_F(ReplacedFile, FollowsALink) {
  const std::filesystem::path link = folder_.path() / "link";
  std::filesystem::create_symlink(file_, link);
  replaced_file f(link.string());
  f << "after";
  EXPECT_EQ(f.keep(), 0);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(text_of(file_), "after");
}

TEST_F(ReplacedFile, WritesIntoADeviceAndSaysWhyItCannot) {
  replaced_file full("/dev/full");
  full << "more than fits";
  EXPECT_EQ(full.keep(), ENOSPC);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  replaced_file nowhere((folder_.path() / "none" / "x").string());
  EXPECT_FALSE(nowhere.is_open());
  EXPECT_EQ(errno, ENOENT);
}

} // namespace
} // namespace mailgrad
