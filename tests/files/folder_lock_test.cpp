#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/locks.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>

namespace mailgrad {
namespace {

using ::testing::HasSubstr;

class FolderLock : public ::testing::Test {
protected:
  folder_lock take() const { return {folder_.path(), "another test works there"}; }
  std::string refusal() const {
    return testing::words_of_refusal([&] { const folder_lock second = take(); });
  }
  std::filesystem::path file() const { return folder_.path() / folder_lock::file_name; }

  const scratch_folder folder_;
};

TEST_F(FolderLock, FollowsNoLink) {
  const std::filesystem::path other = folder_.write("other", "of somebody else");
  std::filesystem::create_symlink(other, file());
  EXPECT_THAT(refusal(), HasSubstr("Too many levels of symbolic links"));
  EXPECT_EQ(std::filesystem::file_size(other), 16U);
}

TEST_F(FolderLock, KeepsASecondOneOutAndNamesTheFirst) {
  std::optional<folder_lock> first(take());
  EXPECT_EQ(refusal(), folder_.path().string() + ": another test works there (process " +
                           std::to_string(getpid()) + ")");
  std::optional<folder_lock> moved(std::move(*first));
  first.reset();
  EXPECT_THAT(refusal(), HasSubstr("another test works there"));
  moved.reset();
  EXPECT_EQ(refusal(), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

/// Between the lock and the words in its file lies a moment.
TEST_F(FolderLock, NamesTheFirstThatHasNotSaidSoYetAndTheMachineOfAnother) {
  const folder_lock first = take();
  std::filesystem::resize_file(file(), 0);
  EXPECT_THAT(refusal(), HasSubstr(" (process " + std::to_string(getpid()) + ")"));
  std::ofstream(file()) << "4711 node2\n";
  EXPECT_THAT(refusal(), HasSubstr("there (process 4711 of node2)"));
}

/// Nobody takes what a dead process has left for a lock.
TEST_F(FolderLock, EndsWithItsProcess) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const folder_lock lock = take();
    if (write(ends[1], ".", 1) == 1) pause();
    _exit(1);
  }
  char told = 0;
  ASSERT_EQ(read(ends[0], &told, 1), 1);
  EXPECT_THAT(refusal(), HasSubstr("(process " + std::to_string(child) + ")"));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(std::filesystem::exists(file()));
  EXPECT_EQ(refusal(), "");
  for (const int end : ends) close(end);
}

TEST_F(FolderLock, NeedsAFolder) {
  EXPECT_THROW(folder_lock(folder_.path() / "none", "nobody works there"), file_error);
}

} // namespace
} // namespace mailgrad
