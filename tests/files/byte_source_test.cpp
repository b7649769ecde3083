#include <mailgrad/files/byte_source.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <random>

namespace mailgrad {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string noise(std::size_t n) {
  std::mt19937 random{5};
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>(random() % 17);
  return bytes;
}

std::string all_of(const std::filesystem::path& file) {
  byte_source source{file};
  const auto bytes = read_up_to(source, byte_source::most_bytes);
  EXPECT_TRUE(source.at_end());
  EXPECT_EQ(source.offset(), bytes.size());
  return {bytes.begin(), bytes.end()};
}

TEST(ByteSource, ReadsPlainAndPackedFilesAlike) {
  const scratch_folder folder;
  for (std::size_t size : {0UL, 1UL, 1000UL, 65536UL, 300'001UL}) {
    const std::string bytes = noise(size);
    EXPECT_EQ(all_of(folder.write("plain", bytes)), bytes);
    EXPECT_EQ(all_of(folder.write("packed", gzipped(bytes))), bytes);
  }
}

TEST(ByteSource, ReadsAGzipFileOfSeveralMembers) {
  const scratch_folder folder;
  EXPECT_EQ(all_of(folder.write("x", gzipped("one ") + gzipped("") + gzipped("two"))), "one two");
}

TEST(ByteSource, ReadsInPieces) {
  const scratch_folder folder;
  byte_source source{folder.write("x", gzipped("abcdef"))};
  EXPECT_EQ(read_up_to(source, 4), (std::vector<std::uint8_t>{'a', 'b', 'c', 'd'}));
  EXPECT_EQ(source.offset(), 4U);
  EXPECT_EQ(read_up_to(source, 4), (std::vector<std::uint8_t>{'e', 'f'}));
}

TEST(ByteSource, KnowsHowMuchMayCome) {
  const scratch_folder folder;
  EXPECT_EQ(byte_source{folder.write("plain", noise(100'000))}.most_left(), 100'000U);
  const std::string zeros(1'000'000, '\0');
  const byte_source packed{folder.write("packed", gzipped(zeros))};
  EXPECT_GE(packed.most_left(), zeros.size());
  EXPECT_LE(packed.most_left(), 3 * zeros.size());
}

TEST(ByteSource, TakesNoMemoryForWhatDoesNotCome) {
  const scratch_folder folder;
  byte_source source{folder.write("x", gzipped(noise(1000)))};
  EXPECT_LE(read_up_to(source, byte_source::most_bytes).capacity(), std::size_t{1} << 16);
}

TEST(ByteSource, NoticesThatAGzipFileIsCut) {
  const scratch_folder folder;
  const std::string packed = gzipped(noise(1000));
  for (std::size_t size = 2; size < packed.size(); ++size) {
    const auto file = folder.write("cut.gz", packed.substr(0, size));
    ASSERT_EQ(complaint([&] { all_of(file); }), "cut.gz: offset " + std::to_string(size) +
                                                    ": the gzip file is cut: expected more, found its end");
  }
}

TEST(ByteSource, NoticesDamageInAGzipFile) {
  const scratch_folder folder;
  std::string packed = gzipped(noise(1000));
  packed[packed.size() - 6] ^= 1; // in the checksum
  EXPECT_THAT(complaint([&] { all_of(folder.write("x", packed)); }), HasSubstr("the gzip file is damaged"));
  packed = gzipped("abc") + "xyz";
  EXPECT_THAT(complaint([&] { all_of(folder.write("x", packed)); }), HasSubstr("found further bytes"));
  EXPECT_THAT(complaint([&] { all_of(folder.write("x", "\x1f\x8bno gzip after all")); }),
              HasSubstr("the gzip file is damaged"));
}

TEST(ByteSource, SaysWhyAFileCannotBeRead) {
  const scratch_folder folder;
  EXPECT_EQ(complaint([&] { byte_source{folder.path() / "none"}; }),
            "none: cannot be read: No such file or directory");
  EXPECT_THAT(complaint([&] { byte_source{folder.path()}; }), HasSubstr("cannot be read: Is a directory"));
  EXPECT_THAT(complaint([&] { byte_source{"/dev/zero"}; }), StartsWith("/dev/zero: expected a regular file"));
}

TEST(ByteSource, KeepsTheCodeOfTheSystem) {
  try {
    byte_source source{"/nowhere/at/all"};
    FAIL();
  } catch (const file_error& e) {
    EXPECT_EQ(e.code(), std::errc::no_such_file_or_directory);
  }
}

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
