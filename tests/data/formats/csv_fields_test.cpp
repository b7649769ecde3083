#include <mailgrad/data/formats/csv_fields.hpp>

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

} // namespace
} // namespace mailgrad
