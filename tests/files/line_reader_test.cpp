#include <mailgrad/files/byte_source.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

namespace mailgrad {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  const scratch_folder folder;
  line_reader reader{folder.write("lines", text)};
  std::vector<std::string> lines;
  while (const auto line = reader.next()) {
    lines.emplace_back(*line);
    EXPECT_EQ(reader.number().value, lines.size());
  }
  return lines;
}

using strings = std::vector<std::string>;

TEST(LineReader, TakesOffTheEndsOfLines) {
  EXPECT_EQ(lines_of("a\nbc\n"), (strings{"a", "bc"}));
  EXPECT_EQ(lines_of("a\r\nbc\r\n"), (strings{"a", "bc"}));
  EXPECT_EQ(lines_of("a\nbc"), (strings{"a", "bc"}));
  EXPECT_EQ(lines_of(""), strings{});
}

TEST(LineReader, TakesOffAByteOrderMarkAtTheBeginningAlone) {
  EXPECT_EQ(lines_of("\xef\xbb\xbf"
                     "a\r\n\xef\xbb\xbf"
                     "b\n"),
            (strings{"a", "\xef\xbb\xbf"
                          "b"}));
  EXPECT_EQ(lines_of("\xef\xbb\xbf\r\n"), strings{});
  EXPECT_EQ(lines_of("\xef\xbb\xbf"), strings{});
}

TEST(LineReader, LeavesOutEmptyLinesAtTheEnd) {
  EXPECT_EQ(lines_of("a\n\n\r\n\n"), (strings{"a"}));
  EXPECT_EQ(complaint([] { lines_of("a\n\n\nb\n"); }), "lines: line 2: expected a row, found an empty line");
}

TEST(LineReader, ReadsLinesLongerThanItsBuffer) {
  const std::string longest(500'000, 'x');
  const std::string middle(70'000, 'y');
  EXPECT_EQ(lines_of(longest + "\n" + middle + "\nz\n"), (strings{longest, middle, "z"}));
}

TEST(LineReader, ReadsManyLinesAcrossItsBuffer) {
  std::string text;
  strings lines;
  for (int i = 0; i < 40'000; ++i) {
    lines.push_back("line " + std::to_string(i));
    text += lines.back() + "\n";
  }
  EXPECT_EQ(lines_of(text), lines);
  EXPECT_EQ(lines_of(gzipped(text)), lines);
}

TEST(LineReader, RefusesALineWithoutEnd) {
  const std::string bomb = gzipped(std::string(line_reader::longest + 200'000, '1'));
  EXPECT_EQ(complaint([&] { lines_of(bomb); }),
            "lines: line 1: expected at most 67108864 bytes, found a longer line");
}

} // namespace
} // namespace mailgrad
