#include <mailgrad/tests/support/scratch_files.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

// What cmake/mailgrad_commit.cmake finds out of a folder of sources.

namespace mailgrad {
namespace {

class BuildCommit : public ::testing::Test {
protected:
  void SetUp() override {
    if (std::system("git --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no git here";
  }
  void run(const std::string& command) const {
    const std::string all = "cd " + sources_.path().string() + " && (" + command + ") >/dev/null 2>&1";
    ASSERT_EQ(std::system(all.c_str()), 0) << all;
  }
  void commit(const std::string& file) const {
    sources_.write(file, "text");
    run("git init -q && git add . && git -c user.name=a -c user.email=b commit -qm c");
  }
  /// As the generated source has it.
  std::string asked(const std::string& folder = "") const {
    run("cmake -DSOURCE=" + (sources_.path() / folder).string() + " -DOUTPUT=" + output().string() + " -P " +
        MAILGRAD_COMMIT_SCRIPT);
    std::string text;
    std::getline(std::ifstream(output()), text, '\0');
    const std::size_t begin = text.find('"') + 1;
    return text.substr(begin, text.find('"', begin) - begin);
  }
  std::filesystem::path output() const { return build_.path() / "commit.cpp"; }

  const scratch_folder sources_;
  const scratch_folder build_;
};

TEST_F(BuildCommit, IsUnknownWhereThereIsNoRepository) { EXPECT_EQ(asked(), "unknown"); }

TEST_F(BuildCommit, SaysWhetherFilesHaveChangedSince) {
  commit("a.cpp");
  const std::string clean = asked();
  EXPECT_EQ(clean.size(), 12U) << clean;
  EXPECT_EQ(clean.find_first_not_of("0123456789abcdef"), clean.npos) << clean;
  sources_.write("untracked", "text");
  EXPECT_EQ(asked(), clean);
  sources_.write("a.cpp", "other text");
  EXPECT_EQ(asked(), clean + "-dirty");
}

TEST_F(BuildCommit, IsNotThatOfARepositoryAround) {
  commit("a.cpp");
  std::filesystem::create_directory(sources_.path() / "unpacked");
  EXPECT_EQ(asked("unpacked"), "unknown");
}

TEST_F(BuildCommit, LeavesItsSourceAloneUntilItChanges) {
  commit("a.cpp");
  asked();
  const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  std::filesystem::last_write_time(output(), old);
  asked();
  EXPECT_EQ(std::filesystem::last_write_time(output()), old);
  sources_.write("a.cpp", "other text");
  asked();
  EXPECT_GT(std::filesystem::last_write_time(output()), old);
}

} // namespace
} // namespace mailgrad
