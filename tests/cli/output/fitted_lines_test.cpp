#include <mailgrad/cli/output/failure_line.hpp>

#include <gtest/gtest.h>

#include <string>

namespace mailgrad {
namespace {

TEST(FittedLines, StandInTheSecondColumn) {
  const std::string digest(64, 'a');
  EXPECT_EQ(fitted_lines("updates       12\nparameters    sha256 " + digest + "\n", 80),
            "updates       12\nparameters    sha256\n              " + digest + "\n");
  EXPECT_EQ(fitted_lines("sampled       one two three\n", 22),
            "sampled       one two\n              three\n");
}

TEST(FittedLines, LeaveTextsAndTablesAsTheyAre) {
  const std::string text = "sample\n  " + std::string(30, 'x') + " " + std::string(30, 'y') + "\n";
  EXPECT_EQ(fitted_lines(text, 40), text);
  EXPECT_EQ(fitted_lines("a word that is wide\n", 10), "a word that is wide\n") << "no room for two columns";
}

TEST(FittedLines, AreNotMadeForAFile) {
  const std::string line(200, 'x');
  EXPECT_EQ(fitted_to(-1, line), line);
}

} // namespace
} // namespace mailgrad
