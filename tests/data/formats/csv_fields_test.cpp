#include <mailgrad/data/formats/csv_fields.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <optional>
#include <sstream>
#include <string>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

std::optional<std::vector<std::string>> fields_of(std::string_view line, char delimiter = ',') {
  csv_fields splitter(delimiter);
  std::vector<std::string_view> fields;
  if (splitter.add(line) != csv_fields::record::whole) return std::nullopt;
  splitter.list(fields);
  return std::vector<std::string>(fields.begin(), fields.end());
}

TEST(CsvFields, AreWhatStandsBetweenDelimiters) {
  EXPECT_THAT(fields_of("1,-2.5,word"), Optional(ElementsAre("1", "-2.5", "word")));
  EXPECT_THAT(fields_of("1;2,5;3", ';'), Optional(ElementsAre("1", "2,5", "3")));
  EXPECT_THAT(fields_of("1\t\t3", '\t'), Optional(ElementsAre("1", "", "3")));
}

TEST(CsvFields, MayBeEmpty) {
  EXPECT_THAT(fields_of(",,"), Optional(ElementsAre("", "", "")));
  EXPECT_THAT(fields_of(""), Optional(ElementsAre("")));
  EXPECT_THAT(fields_of("  "), Optional(ElementsAre("")));
  EXPECT_THAT(fields_of("\"\",1"), Optional(ElementsAre("", "1")));
}

TEST(CsvFields, HoldDelimitersAndQuotesInQuotes) {
  EXPECT_THAT(fields_of("\"a,b\",1"), Optional(ElementsAre("a,b", "1")));
  EXPECT_THAT(fields_of("\"say \"\"yes\"\"\",1"), Optional(ElementsAre("say \"yes\"", "1")));
  EXPECT_THAT(fields_of("\"\"\"\""), Optional(ElementsAre("\"")));
}

TEST(CsvFields, LoseBlanksAroundThemButNotInQuotes) {
  EXPECT_THAT(fields_of(" 1 ,\t2, \" a \" "), Optional(ElementsAre("1", "2", " a ")));
}

TEST(CsvFields, HaveQuotesInFrontIfTheyHaveThemAround) {
  EXPECT_THAT(fields_of("5\" pipe,a \"b\" c"), Optional(ElementsAre("5\" pipe", "a \"b\" c")));
  EXPECT_EQ(fields_of("\"a\"b,1"), std::nullopt);
  EXPECT_EQ(csv_fields(',').add("\"a\" b"), csv_fields::record::misplaced);
}

TEST(CsvFields, GoOnInTheNextLineWithinQuotes) {
  csv_fields splitter(',');
  EXPECT_EQ(splitter.add("1,\"open\"\""), csv_fields::record::open);
  EXPECT_EQ(splitter.add(""), csv_fields::record::open);
  EXPECT_EQ(splitter.add("end\",2"), csv_fields::record::whole);
  std::vector<std::string_view> fields;
  splitter.list(fields);
  EXPECT_THAT(fields, ElementsAre("1", "open\"\n\nend", "2"));
}

TEST(CsvFields, AreReadAnewAfterALineThatWasRefused) {
  csv_fields splitter(',');
  std::vector<std::string_view> fields;
  EXPECT_EQ(splitter.add("\"a\"b,2"), csv_fields::record::misplaced);
  EXPECT_EQ(splitter.add("3,4"), csv_fields::record::whole);
  splitter.list(fields);
  EXPECT_THAT(fields, ElementsAre("3", "4"));
}

char delimiter_of(const std::vector<std::string>& lines, std::size_t columns = 0) {
  return csv_form_of(lines, 0, columns).delimiter;
}

TEST(CsvForm, HasTheDelimiterThatMakesNumbersOfMostFields) {
  EXPECT_EQ(delimiter_of({"1,2,3"}), ',');
  EXPECT_EQ(delimiter_of({"1;2,5;3"}), ';');
  EXPECT_EQ(delimiter_of({"1,5;2,5;3,5"}), ';');
  EXPECT_EQ(delimiter_of({"\"a,b,c\";2"}), ';');
  EXPECT_EQ(delimiter_of({"1\t2"}), '\t');
  EXPECT_EQ(delimiter_of({"1,5|2,5"}), '|');
  EXPECT_EQ(delimiter_of({"name;x", "Smith, John;5", "Doe, Jane;6"}), ';');
  EXPECT_EQ(delimiter_of({"genre,x", "a; b,5", "c; d,6"}), ',');
  EXPECT_EQ(delimiter_of({"K\u00f6ln;2,5"}, 2), ';') << "both make as many numbers";
  EXPECT_EQ(delimiter_of({"x; y,u,v"}), ',') << "more fields";
  EXPECT_EQ(delimiter_of({"1,5"}, 1), ';') << "one column has no delimiter in it";
}

TEST(CsvForm, HasCommentsUnlessMostRowsWouldBeSome) {
  const auto has_comments = [](const std::vector<std::string>& lines) {
    return csv_form_of(lines, ',', 0).comments;
  };
  EXPECT_TRUE(has_comments({"# a, b", "1,2", "3,4"}));
  EXPECT_TRUE(has_comments({"#1,2", "3,4", "5,6"}));
  EXPECT_FALSE(has_comments({"colour,n", "#f00,1", "#0f0,2"}));
  EXPECT_FALSE(has_comments({"#f00,1", "#0f0,2"}));
}

std::vector<std::vector<std::string>> records_of(const std::string& text, csv_form form) {
  std::istringstream in(text);
  csv_records records(text_lines(in, "x.csv"), form);
  std::vector<std::vector<std::string>> all;
  while (records.next()) all.emplace_back(records.fields().begin(), records.fields().end());
  return all;
}

TEST(CsvRecords, TakesALineWithAHashForARowIfItHasItsFields) {
  EXPECT_THAT(records_of("a,b\n#DIV/0!,1\n# a remark\n#,x,y\n2,3\n", {}),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("#DIV/0!", "1"), ElementsAre("2", "3")));
  EXPECT_THAT(records_of("# a\n1\n#2\n", {}), ElementsAre(ElementsAre("1"))) << "one field is no table";
  EXPECT_THAT(records_of("1,a\n#1,\"b\n\"\n", {}),
              ElementsAre(ElementsAre("1", "a"), ElementsAre("#1", "b\n")))
      << "in a record of two lines";
  EXPECT_THAT(records_of("# a, b\n#x;1\n2;3\n", {.delimiter = 0, .columns = 2}),
              ElementsAre(ElementsAre("#x", "1"), ElementsAre("2", "3")))
      << "where the columns are known";
}

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
