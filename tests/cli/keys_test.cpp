#include <mailgrad/tests/cli/tool.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <string>

namespace mailgrad::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

struct Keys : ::testing::Test {
  scratch_folder files;
  std::string where = (files.path() / "keys").string();
};

TEST_F(Keys, AreMadeAndExplained) {
  tool t({"keys", "new", where});
  EXPECT_EQ(t.code(), 0);
  EXPECT_THAT(t.err(), IsEmpty());
  EXPECT_THAT(t.out(), StartsWith("Made in " + where + ":\n"));
  for (const auto& file : std::filesystem::directory_iterator(where))
    EXPECT_THAT(t.out(), HasSubstr(file.path().filename().string()));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(where), {}), 9);
}

TEST_F(Keys, AreNotMadeTwice) {
  tool({"keys", "new", where}).code();
  tool again({"keys", "new", where});
  EXPECT_EQ(again.code(), 2);
  EXPECT_THAT(again.err(),
              StartsWith("mailgrad: " + where + ": expected a folder without keys, found ca.pem"));
  EXPECT_EQ(std::ranges::count(again.err(), '\n'), 1);
}

TEST_F(Keys, WantAFolder) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"keys"}, {"keys", "new"}, {"keys", "old", where}}) {
    tool t(words);
    EXPECT_EQ(t.code(), 2);
    EXPECT_THAT(t.err(), StartsWith("mailgrad: "));
    EXPECT_EQ(std::ranges::count(t.err(), '\n'), 1) << t.err();
    EXPECT_FALSE(std::filesystem::exists(where));
  }
}

} // namespace
} // namespace mailgrad::testing
