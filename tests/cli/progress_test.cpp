#include <mailgrad/tests/cli/tool.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>

// What a terminal shows of a run.

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing::tool;

std::vector<std::string> train(const char* option, const char* value) {
  return {"train", "--model", "softmax", "--data", MAILGRAD_SMALL_CSV, "--batch", "4", option, value};
}

/// The tool with standard error on a terminal that moves its cursor.
tool on_terminal(const std::vector<std::string>& words, unsigned short columns) {
  setenv("TERM", "xterm", 1);
  return tool(words, nullptr, columns);
}

/// What was drawn over itself, in the order of time.
std::vector<std::string> redrawn_lines(const std::string& shown) {
  constexpr std::string_view start = "\r\033[K";
  std::vector<std::string> lines;
  for (std::size_t at = shown.find(start); at != shown.npos; at = shown.find(start, at + 1)) {
    const std::size_t begin = at + start.size();
    lines.push_back(shown.substr(begin, shown.find('\r', begin) - begin));
  }
  return lines;
}

/// The last line of a run of 20 steps, on a terminal of so many columns.
std::string last_line(unsigned short columns) {
  tool t = on_terminal(train("--steps", "20"), columns);
  EXPECT_EQ(t.code(), 0) << t.err();
  const std::vector<std::string> lines = redrawn_lines(t.err());
  EXPECT_FALSE(lines.empty()) << t.err();
  for (const std::string& line : lines) EXPECT_LT(line.size(), columns) << line;
  return lines.empty() ? "" : lines.back();
}

TEST(Progress, FitsIntoOneLineOfAnyTerminal) {
  const std::string full_bar = "[" + std::string(24, '#') + "] step 20 of 20, ";
  EXPECT_THAT(last_line(200),
              AllOf(StartsWith(full_bar), HasSubstr("samples/s, loss "), HasSubstr("mean staleness")));
  EXPECT_THAT(last_line(70),
              AllOf(StartsWith("[####"), HasSubstr("samples/s, loss "), Not(HasSubstr("staleness"))));
  EXPECT_THAT(last_line(48),
              AllOf(StartsWith("[####"), HasSubstr("] step 20 of 20, loss "), Not(HasSubstr("samples"))));
  EXPECT_THAT(last_line(30), AllOf(StartsWith("step 20 of 20, loss ")));
  EXPECT_EQ(last_line(20), "step 20 of 20");
  EXPECT_EQ(last_line(8), "step 20");
}

TEST(Progress, EndsWithAFullBar) {
  for (const unsigned short columns : std::to_array<unsigned short>({200, 100, 80, 52})) {
    const std::string line = last_line(columns);
    EXPECT_THAT(line, AllOf(HasSubstr("loss "), Not(HasSubstr("loss 0.0000")))) << "as at the end";
    const std::string bar = line.substr(0, line.find(']'));
    EXPECT_EQ(bar, '[' + std::string(bar.size() - 1, '#')) << columns;
  }
}

TEST(Progress, TakesTheWidthFromTheEnvironmentWhereTheTerminalDoesNotTell) {
  setenv("COLUMNS", "20", 1);
  tool t = on_terminal(train("--steps", "20"), 0);
  unsetenv("COLUMNS");
  EXPECT_EQ(t.code(), 0);
  EXPECT_THAT(redrawn_lines(t.err()), Contains("step 20 of 20"));
  tool usual = on_terminal(train("--steps", "20"), 0);
  EXPECT_EQ(usual.code(), 0);
  EXPECT_THAT(redrawn_lines(usual.err()), Contains(AllOf(StartsWith("[####"), HasSubstr("loss"))));
}

TEST(Progress, TellsHowMuchTimeIsLeft) {
  const std::vector<std::string> long_run = train("--epochs", "1000000000");
  for (const bool drawn : {true, false}) {
    tool t = drawn ? on_terminal(long_run, 100) : tool(long_run);
    EXPECT_TRUE(t.says(" left"));
    t.signal(SIGINT);
    EXPECT_EQ(t.code(), 130);
  }
  EXPECT_THAT(last_line(200), Not(HasSubstr(" left"))) << "nothing is left to do";
}

TEST(Progress, MovesNoCursorWhereThereIsNone) {
  setenv("TERM", "dumb", 1);
  tool t(train("--steps", "20"), nullptr, 80);
  setenv("TERM", "xterm", 1);
  EXPECT_EQ(t.code(), 0);
  EXPECT_THAT(redrawn_lines(t.err()), ::testing::IsEmpty());
}

} // namespace
} // namespace mailgrad
