#include <mailgrad/data/formats/csv_fields.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <sstream>

namespace mailgrad {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct read_lines {
  std::vector<std::string> lines;
  std::string encoding;
};

read_lines all_of(text_lines lines) {
  read_lines found;
  while (const auto line = lines.next()) found.lines.emplace_back(*line);
  EXPECT_EQ(lines.number().value, found.lines.size());
  found.encoding = lines.encoding();
  return found;
}

/// From a file, packed or not, and from a stream, which gives it line by line.
std::vector<read_lines> read_everywhere(const std::string& bytes) {
  const scratch_folder folder;
  std::istringstream in(bytes);
  return {all_of(text_lines(folder.write("x", bytes))),
          all_of(text_lines(folder.write("x.gz", gzipped(bytes)))), all_of(text_lines(in, "x"))};
}

std::string utf16(std::u16string_view text, bool big) {
  std::string bytes;
  for (const char16_t c : text)
    for (const int shift : {big ? 8 : 0, big ? 0 : 8}) bytes += static_cast<char>(c >> shift & 0xff);
  return bytes;
}

TEST(TextLines, EndInAnyOfThreeWays) {
  for (const char* text : {"a\n\nb\n", "a\r\n\r\nb\r\n", "a\r\rb\r", "a\r\n\rb", "a\n\rb\n"})
    for (const read_lines& found : read_everywhere(text)) {
      EXPECT_THAT(found.lines, ElementsAre("a", "", "b")) << text;
      EXPECT_EQ(found.encoding, "UTF-8");
    }
}

TEST(TextLines, AreTheSameInEveryEncoding) {
  const std::u16string text = u"Gr\u00fc\u00dfe \u20ac \U0001f339\nK\u00f6ln\n";
  for (const auto& [bytes, encoding] :
       {std::pair<std::string, const char*>{"\xef\xbb\xbfGr\u00fc\u00dfe \u20ac \U0001f339\nK\u00f6ln\n",
                                            "UTF-8"},
        {"\xff\xfe" + utf16(text, false), "UTF-16 LE"},
        {"\xfe\xff" + utf16(text, true), "UTF-16 BE"},
        {utf16(text, false), "UTF-16 LE"},
        {utf16(text, true), "UTF-16 BE"}})
    for (const read_lines& found : read_everywhere(bytes)) {
      EXPECT_THAT(found.lines, ElementsAre("Gr\u00fc\u00dfe \u20ac \U0001f339", "K\u00f6ln"));
      EXPECT_EQ(found.encoding, encoding);
    }
}

TEST(TextLines, AreWindows1252WhereTheyAreNoUtf8) {
  for (const read_lines& found : read_everywhere("a\nK\xf6ln \x80\n")) {
    EXPECT_THAT(found.lines, ElementsAre("a", "K\u00f6ln \u20ac"));
    EXPECT_EQ(found.encoding, "Windows-1252");
  }
  EXPECT_EQ(read_everywhere("K\xf6ln\nK\u00f6ln\n")[0].encoding, "UTF-8 and Windows-1252");
}

TEST(TextLines, MayBeLongAndMany) {
  std::string text;
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < 3000; ++i) {
    expected.push_back(std::string(i % 97 == 5 ? 100'000 : i % 50, 'x') + std::to_string(i));
    text += expected.back() + (i % 3 == 0 ? "\r\n" : i % 3 == 1 ? "\r" : "\n");
  }
  for (const read_lines& found : read_everywhere(text)) EXPECT_EQ(found.lines, expected);
}

TEST(TextLines, RefuseWhatIsNoText) {
  const scratch_folder folder;
  const auto refused = [&](const std::string& bytes) {
    return complaint([&] { all_of(text_lines(folder.write("x", bytes))); });
  };
  EXPECT_EQ(refused(std::string("ab\nc\0d\n", 7)), "x: line 2: expected text, found a character 0");
  EXPECT_THAT(refused("\xff\xfe" + utf16(u"a\nb", false) + "c"),
              HasSubstr("line 2: expected characters of UTF-16"));
  EXPECT_THAT(refused("\xff\xfe" + utf16(u"a\xdc00", false)),
              HasSubstr("line 1: expected characters of UTF-16"));
}

} // namespace
} // namespace mailgrad
