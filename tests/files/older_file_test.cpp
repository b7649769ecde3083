#include <mailgrad/files/replaced_file.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace mailgrad {
namespace {

namespace fs = std::filesystem;

class OlderFile : public ::testing::Test {
protected:
  fs::path path(const char* name) const { return folder_.path() / name; }
  std::string bytes_of(const char* name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

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
