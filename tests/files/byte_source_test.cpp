#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <random>

namespace mailgrad {
namespace {

using testing::HasSubstr;

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

std::string read_back(std::string_view bytes) {
  const scratch_folder folder;
  return all_of(folder.write("x", bytes));
}

TEST(ByteSource, ReadsPlainAndPackedFilesAlike) {
  for (std::size_t size : {0UL, 1UL, 1000UL, 65536UL, 300'001UL}) {
    const std::string bytes = noise(size);
    EXPECT_EQ(read_back(bytes), bytes);
    EXPECT_EQ(read_back(gzipped(bytes)), bytes);
  }
  EXPECT_EQ(read_back(gzipped("one ") + gzipped("") + gzipped("two")), "one two") << "of several members";
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
  const std::string packed = gzipped(noise(1000));
  for (std::size_t size = 2; size < packed.size(); ++size)
    ASSERT_EQ(complaint([&] { read_back(packed.substr(0, size)); }),
              "x: offset " + std::to_string(size) + ": the gzip file is cut: expected more, found its end");
}

TEST(ByteSource, NoticesDamageInAGzipFile) {
  std::string wrong_sum = gzipped(noise(1000));
  wrong_sum[wrong_sum.size() - 6] ^= 1;
  for (const auto& [bytes, says] : {std::pair{wrong_sum, "the gzip file is damaged"},
                                    {gzipped("abc") + "xyz", "found further bytes"},
                                    {"\x1f\x8bno gzip after all", "the gzip file is damaged"}})
    EXPECT_THAT(complaint([&bytes = bytes] { read_back(bytes); }), HasSubstr(says));
}

TEST(ByteSource, SaysWhyAFileCannotBeRead) {
  const scratch_folder folder;
  EXPECT_EQ(complaint([&] { byte_source{folder.path() / "none"}; }),
            "none: cannot be read: No such file or directory");
  EXPECT_THAT(complaint([&] { byte_source{folder.path()}; }), HasSubstr("cannot be read: Is a directory"));
  EXPECT_THAT(complaint([&] { byte_source{"/dev/zero"}; }),
              testing::StartsWith("/dev/zero: expected a regular file"));
  EXPECT_THAT([] { byte_source{"/nowhere/at/all"}; },
              testing::Throws<file_error>(
                  testing::Property(&file_error::code, std::errc::no_such_file_or_directory)));
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
  const std::string mark = "\xef\xbb\xbf"; // of byte order, which is taken off at the beginning alone
  const std::pair<std::string, strings> all[] = {{"a\nbc\n", {"a", "bc"}},
                                                 {"a\r\nbc\r\n", {"a", "bc"}},
                                                 {"a\nbc", {"a", "bc"}},
                                                 {"", {}},
                                                 {mark + "a\r\n" + mark + "b\n", {"a", mark + "b"}},
                                                 {mark + "\r\n", {}},
                                                 {mark, {}},
                                                 {"a\n\n\r\n\n", {"a"}}};
  for (const auto& [text, lines] : all) EXPECT_EQ(lines_of(text), lines) << text;
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
