#include <mailgrad/data/formats/csv_fields.hpp>

#include <gmock/gmock.h>

#include <optional>
#include <string>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

std::optional<std::vector<std::string>> fields_of(std::string_view line, char delimiter = ',') {
  csv_fields splitter(delimiter);
  std::vector<std::string_view> fields;
  if (!splitter.split(line, fields)) return std::nullopt;
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

TEST(CsvFields, EndWithTheirLine) {
  EXPECT_EQ(fields_of("1,\"open"), std::nullopt);
  EXPECT_EQ(fields_of("1,\"open\"\""), std::nullopt);
}

TEST(CsvFields, HaveQuotesAroundAllOfThemOrNone) {
  EXPECT_EQ(fields_of("a \"b\" c,1"), std::nullopt);
  EXPECT_EQ(fields_of("\"a\"b,1"), std::nullopt);
}

TEST(CsvFields, AreReadAnewAfterALineThatWasRefused) {
  csv_fields splitter(',');
  std::vector<std::string_view> fields;
  EXPECT_FALSE(splitter.split("\"open,2", fields));
  EXPECT_TRUE(splitter.split("3,4", fields));
  EXPECT_THAT(fields, ElementsAre("3", "4"));
}

TEST(CsvFields, TakeTheDelimiterThatStandsMostOftenOutsideQuotes) {
  EXPECT_EQ(most_frequent_delimiter("1,2,3"), ',');
  EXPECT_EQ(most_frequent_delimiter("1;2,5;3"), ';');
  EXPECT_EQ(most_frequent_delimiter("\"a,b,c\";2"), ';');
  EXPECT_EQ(most_frequent_delimiter("1\t2"), '\t');
}

} // namespace
} // namespace mailgrad
