#include <mailgrad/data/spelled_number.hpp>
#include <mailgrad/data/table_layout.hpp>

#include <gmock/gmock.h>

#include <cmath>

namespace mailgrad {
namespace {

using namespace ::testing;

TEST(TableLayout, CountsTheNumbersOfASample) {
  const table_layout t{.columns = {{"a", column_kind::number, {}},
                                   {"b", column_kind::category, {"x", "y", "z"}},
                                   {"c", column_kind::left_out, {}}}};
  EXPECT_EQ(t.width(), 4U);
  EXPECT_FALSE(t.is_plain());
  EXPECT_TRUE((table_layout{.columns = {{"a", column_kind::number, {}}}}.is_plain()));
}

TEST(TableLayout, KnowsWhatHasNoValue) {
  for (const char* field : {"", "?", "NA", "na", "N/A", "nan", "NaN", "NULL"})
    EXPECT_TRUE(is_missing(field)) << field;
  for (const char* field : {"0", "none", "nano", "-", "n", "??"}) EXPECT_FALSE(is_missing(field)) << field;
}

TEST(TableLayout, TellsNamesFromARow) {
  const table_layout t{
      .columns = {{"colour", column_kind::category, {"red"}}, {"size", column_kind::category, {"s"}}}};
  using fields = std::vector<std::string_view>;
  EXPECT_TRUE(are_names(t, fields{"colour", "size"}));
  EXPECT_TRUE(are_names(t, fields{"colour", "weight"}));
  EXPECT_FALSE(are_names(t, fields{"red", "s"})) << "a row of words is no header";
  EXPECT_FALSE(are_names(t, fields{"colour"}));
  const table_layout mixed{
      .columns = {{"colour", column_kind::category, {"red"}}, {"", column_kind::number, {}}}};
  EXPECT_TRUE(are_names(mixed, fields{"shade", "size"}));
  EXPECT_FALSE(are_names(mixed, fields{"red", "?"})) << "a missing value is no name";
  EXPECT_FALSE(are_names(mixed, fields{"red", "1,5"})) << "nor is a number with a decimal comma";
  EXPECT_EQ(wrong_name(t, fields{"colour", "size"}), "");
  EXPECT_EQ(wrong_name(t, fields{"colour", "weight"}),
            "expected a column called 'size', as in training, found 'weight'");
}

TEST(FieldNumbers, LearnKindsAndCategories) {
  table_layout t;
  t.columns.resize(2);
  field_numbers numbers(t);
  EXPECT_THAT(numbers.read(0, "?"), Optional(IsNan())) << "says nothing about the kind";
  std::vector<float> rows;
  for (const auto& [word, number] : {std::pair{"b", "1"}, {"a", "2.5"}, {"b", "NA"}}) {
    rows.push_back(numbers.read(0, word).value());
    rows.push_back(numbers.read(1, number).value());
  }
  EXPECT_EQ(numbers.read(1, "x"), std::nullopt);
  EXPECT_EQ(numbers.expected(1), "a finite number");
  numbers.settle(rows);
  EXPECT_THAT(rows, ElementsAre(1, 1, 0, 2.5F, 1, IsNan()));
  EXPECT_EQ(t.columns[0].kind, column_kind::category);
  EXPECT_THAT(t.columns[0].categories, ElementsAre("a", "b"));
  EXPECT_EQ(t.columns[1].kind, column_kind::number);
  EXPECT_THAT(expand(t, rows), ElementsAre(0, 1, 1, 1, 0, 2.5F, 0, 1, IsNan()));
}

TEST(FieldNumbers, KeepCategoriesThatAreKnown) {
  table_layout t{.columns = {{"", column_kind::category, {"z", "10", "9"}}}};
  field_numbers numbers(t);
  EXPECT_THAT(numbers.read(0, "9"), Optional(2.0F));
  EXPECT_EQ(numbers.read(0, "a"), std::nullopt);
  EXPECT_EQ(numbers.expected(0), "one of the 3 words 'z', '10', '9'");
  std::vector<float> rows{2, 0};
  numbers.settle(rows);
  EXPECT_THAT(rows, ElementsAre(2, 0));
  EXPECT_THAT(t.columns[0].categories, ElementsAre("z", "10", "9"));
}

TEST(Expand, PutsMeansInThePlaceOfMissingValues) {
  const table_layout t{.columns = {{"", column_kind::left_out, {}},
                                   {"", column_kind::category, {"x", "y"}},
                                   {"", column_kind::number, {}}},
                       .missing = missing_values::mean,
                       .means = {0.25F, 0.75F, 5}};
  const float none = std::nanf("");
  EXPECT_THAT(expand(t, {none, 1, 1, none}), ElementsAre(0.25F, 0.75F, 1, 0, 1, 5));
}

TEST(SpelledNumber, IsReadByItsSigns) {
  EXPECT_THAT(spelled_number("1,234.5", {'.', true}), Optional(1234.5));
  EXPECT_THAT(spelled_number("1.234,5", {',', true}), Optional(1234.5));
  EXPECT_THAT(spelled_number("-12.345.678", {',', true}), Optional(-12345678));
  EXPECT_THAT(spelled_number("1,5e-1", {',', false}), Optional(0.15));
  EXPECT_THAT(spelled_number("1 234,5", {',', false}), Optional(1234.5));
  EXPECT_THAT(spelled_number("1\u202f234", {'.', false}), Optional(1234));
  EXPECT_THAT(spelled_number("1'234'567", {'.', false}), Optional(1234567));
  EXPECT_THAT(spelled_number("\u22121.5", {'.', false}), Optional(-1.5));
  EXPECT_THAT(spelled_number(",5", {',', false}), Optional(0.5));
  EXPECT_THAT(spelled_number("+12", {',', false}), Optional(12));
}

TEST(SpelledNumber, HasGroupsOfThreeDigitsByOneSign) {
  for (const char* field :
       {"1,23", "1,2345", "1234,567", "0,123", "1,234 567", "1,234,56", ",123", "1,", "1,,234"})
    EXPECT_EQ(spelled_number(field, {'.', true}), std::nullopt) << field;
  EXPECT_EQ(spelled_number("1,234", {'.', false}), std::nullopt);
  EXPECT_EQ(spelled_number("1.234", {',', false}), std::nullopt);
}

/// Programs that write an exponent write no thousands.
TEST(SpelledNumber, HasNoThousandsBesideAnExponent) {
  EXPECT_EQ(spelled_number("1.100e5", {',', true}), std::nullopt);
  EXPECT_EQ(spelled_number("1 234E3", {'.', false}), std::nullopt);
  EXPECT_EQ(readings_of("1.100e+05").by_comma, std::nullopt);
  EXPECT_THAT(readings_of("1.100e+05").by_point, Optional(1.1e5));
}

TEST(SpelledNumber, IsNoWordDateOrAddress) {
  for (const char* field :
       {"", "-", "abc", "1/2/2020", "31.12.2020", "192.168.1.1", "1-2", "12:30", "5 kg", "1 2"})
    EXPECT_FALSE(readings_of(field).any()) << field;
}

TEST(NumberReadings, TellWhichDecimalSignsFit) {
  EXPECT_THAT(readings_of("1.5").by_point, Optional(1.5));
  EXPECT_EQ(readings_of("1.5").by_comma, std::nullopt);
  EXPECT_EQ(readings_of("1,5").by_point, std::nullopt);
  EXPECT_THAT(readings_of("1,5").by_comma, Optional(1.5));
  EXPECT_THAT(readings_of("1,234").by_point, Optional(1234));
  EXPECT_THAT(readings_of("1,234").by_comma, Optional(1.234));
  EXPECT_THAT(readings_of("12").by_comma, Optional(12));
}

} // namespace
} // namespace mailgrad
