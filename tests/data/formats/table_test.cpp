#include <mailgrad/data/formats/csv.hpp>
#include <mailgrad/data/formats/csv_fields.hpp>
#include <mailgrad/data/formats/csv_survey.hpp>
#include <mailgrad/data/formats/label_map.hpp>
#include <mailgrad/data/spelled_number.hpp>
#include <mailgrad/data/table_layout.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <sstream>

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

std::vector<std::int32_t> numbers_of(label_map& map, const std::vector<std::string>& labels) {
  std::vector<std::int32_t> numbers;
  for (const std::string& label : labels) numbers.push_back(map.find(label).value_or(-1));
  if (map.is_open()) map.settle(numbers);
  return numbers;
}

TEST(LabelMap, NumbersInSortedOrder) {
  label_map signs, from_one, letters, spellings;
  EXPECT_THAT(numbers_of(signs, {"+1", "-1", "+1"}), ElementsAre(1, 0, 1));
  EXPECT_THAT(numbers_of(from_one, {"10", "2", "1"}), ElementsAre(2, 1, 0));
  EXPECT_THAT(numbers_of(letters, {"T", "A", "Z"}), ElementsAre(1, 0, 2));
  EXPECT_THAT(letters.names(), ElementsAre("A", "T", "Z"));
  EXPECT_THAT(numbers_of(spellings, {"1", "+1", "1.0", "-0", "0"}), ElementsAre(1, 1, 1, 0, 0));
}

TEST(LabelMap, ReadsNumbersByTheSignsOfTheirColumn) {
  label_map map;
  map.read_by({',', true});
  EXPECT_THAT(numbers_of(map, {"1.000", "1", "1000", "1,0", "2.250"}), ElementsAre(1, 0, 1, 0, 2));
  EXPECT_THAT(map.names(), ElementsAre("1", "1.000", "2.250"));
  label_map known(map.names(), label_spelling::numbers, {',', true});
  EXPECT_EQ(known.find("1000,0"), 1);
  known.read_by({'.', false});
  EXPECT_EQ(known.find("2250.0"), 2) << "a test file may write them otherwise";
  label_map noughts;
  EXPECT_THAT(numbers_of(noughts, {".0", "0", "-.0"}), ElementsAre(0, 0, 0));
}

TEST(LabelMap, MayTellEverySpellingApart) {
  label_map map(0, label_spelling::characters);
  EXPECT_THAT(numbers_of(map, {"1.0", "1", "+1", "1.5", "010"}), ElementsAre(2, 1, 0, 3, 4));
  EXPECT_EQ(label_map(0, label_spelling::characters).find(std::string(257, '1')), std::nullopt);
}

TEST(LabelMap, KnowsTheLabelsOfTheTrainingFileAlone) {
  label_map map;
  numbers_of(map, {"5", "3"});
  EXPECT_EQ(map.find("3"), 0);
  EXPECT_EQ(map.find("+5"), 1);
  EXPECT_EQ(map.find("4"), std::nullopt);
  EXPECT_EQ(map.expected(), "one of the 2 labels '3', '5'");
}

TEST(LabelMap, TakesNoFractionsAndNoNothing) {
  label_map map;
  for (const char* label : {"0.5", "-1.5e-3", "nan", "inf", ""}) EXPECT_EQ(map.find(label), std::nullopt);
}

/// Otherwise "010" and "10" are one class, and a model answers with a code that no file has.
TEST(LabelMap, TellsCodesApartThatAreTheSameNumber) {
  label_map map;
  EXPECT_THAT(numbers_of(map, {"10", "010", "1E2", "100", "0010", "1e2"}), ElementsAre(2, 1, 4, 3, 0, 5));
  EXPECT_THAT(map.names(), ElementsAre("0010", "010", "10", "100", "1E2", "1e2"));
  EXPECT_EQ(map.find("10.0"), 2);
  EXPECT_EQ(map.find("+100"), 3);
  EXPECT_EQ(map.find("+010"), std::nullopt) << "a code is known by its characters alone";
}

TEST(LabelMap, KeepsLabelsAsTheyWereWrittenFirst) {
  label_map map;
  numbers_of(map, {"+1", "-1.0", "1", "-1", "12345678901234567890", "12345678901234567891"});
  EXPECT_THAT(map.names(), ElementsAre("-1.0", "+1", "12345678901234567890", "12345678901234567891"));
  label_map again(map.names());
  EXPECT_EQ(again.find("1"), 1);
  EXPECT_EQ(again.find("-1"), 0);
  EXPECT_EQ(again.find("12345678901234567891"), 3);
}

TEST(LabelMap, TakesNoMoreThanAreKnownToBeAndNoEndlessNumber) {
  label_map map{2};
  EXPECT_TRUE(map.find("a"));
  EXPECT_EQ(map.classes(), 2U);
  EXPECT_TRUE(map.find("b"));
  EXPECT_FALSE(map.find("c"));
  EXPECT_TRUE(map.find("a"));
  label_map many;
  for (std::size_t i = 0; i < label_map::most_classes; ++i) ASSERT_TRUE(many.find(std::to_string(i)));
  EXPECT_FALSE(many.find("one more"));
}

TEST(ByteLabels, CountTheirClasses) {
  EXPECT_EQ(count_classes({{2, 0, 1, 1}, "x"}), 3U);
  EXPECT_EQ(count_classes({{1, 2}, "x"}), 3U); // some sets count from 1
  EXPECT_EQ(count_classes({{0}, "x"}), 1U);
  EXPECT_EQ(count_classes({{255, 254}, "x"}), 256U);
  EXPECT_EQ(widened({{0, 255}, "x"}), (std::vector<std::int32_t>{0, 255}));
}

TEST(ByteLabels, SayWhereALabelIsOutOfRange) {
  const byte_labels gap{{0, 1, 200, 2}, "y", 8, 1}, records{{0, 1, 2, 3}, "y", 0, 3073};
  EXPECT_EQ(complaint([&] { count_classes(gap); }), "y: offset 10: expected a label from 0 to 2, found 200");
  EXPECT_EQ(complaint([&] { require_below(3, records); }),
            "y: offset 9219: expected a label from 0 to 2, found 3");
  EXPECT_NO_THROW(require_below(200, {{0, 199}, "y"}));
}

csv_rows read(std::string_view text, csv_options options = {}) {
  const scratch_folder folder;
  label_map labels;
  return read_csv(folder.write("x.csv", text), options, labels);
}

std::string csv_complaint(std::string_view text, const csv_options& options = {}) {
  return complaint([&] { read(text, options); });
}

TEST(Csv, ReadsATestFileByTheLayoutAndTheLabelsOfItsTrainingFile) {
  const scratch_folder folder;
  label_map labels;
  const csv_rows train = read_csv(folder.write("train", "b,1\na,2\nc,3\n"), {}, labels);
  const csv_rows test = read_csv(folder.write("test", gzipped("c,4\nc,5\n")), train.layout, labels);
  EXPECT_THAT(test.labels, ElementsAre(2, 2));
  const auto why = [&](const char* text) {
    return complaint([&] { read_csv(folder.write("x", text), train.layout, labels); });
  };
  EXPECT_EQ(why("a,1\nd,1\n"), "x: line 2: expected one of the 3 labels 'a', 'b', 'c', found 'd'");
  EXPECT_EQ(why("a,1,2\n"), "x: line 1: expected 2 columns, found 3");
}

TEST(Csv, RefusesWhatItCannotReadInOneSentence) {
  const csv_options dropping{.missing = missing_values::drop}, averaging{.missing = missing_values::mean};
  EXPECT_EQ(csv_complaint("1,2,0.5\n"), "x.csv: line 1: expected a label that is a whole number or a word, "
                                        "found '0.5'; a number to predict is a "
                                        "task of regression");
  EXPECT_EQ(csv_complaint("red,1,x\n5,1,x\n"),
            "x.csv: line 2: expected a word, as in the rows before, in column 1, found '5'; --categories "
            "(csv_options::categories) takes numbers for words");
  EXPECT_EQ(csv_complaint("?,2,a\n3,,b\n", dropping),
            "x.csv: expected a row without missing values, found none among 2");
  EXPECT_EQ(csv_complaint("1,2,0\n1,?,0\n"),
            "x.csv: line 2: expected a finite number in column 2, found '?'; --missing drop or mean "
            "(csv_options::missing) takes rows without a value");
  EXPECT_EQ(
      csv_complaint("1,,0\n2,NA,1\n", averaging),
      "x.csv: expected a value in column 2, found none in any row; --leave-out 2 (csv_options::left_out) "
      "leaves it out");
  EXPECT_EQ(csv_complaint("a,b\n1,2,3\n"), "x.csv: line 2: expected 2 columns, found 3");
}

TEST(Csv, RefusesATargetThatIsNoFiniteNumber) {
  for (const std::string target : {"x", "nan", "1e99", ""})
    EXPECT_THAT(csv_complaint("1,2,3\n4,5," + target + "\n", {.holds = label_kind::numbers}),
                HasSubstr("line 2: expected a finite number in column 3, found '" + target + "'"));
}

TEST(Csv, RefusesAColumnThatIsNotThere) {
  const auto asking = [](std::string_view text, const std::string& label) {
    return csv_complaint(text, {.label = csv_label::named, .label_column = label});
  };
  EXPECT_EQ(asking("a,b\n1,2\n", "c"), "x.csv: line 1: expected a column called 'c' for --label "
                                       "(csv_options::label_column), found 'a', 'b'");
  EXPECT_THAT(asking("a,b\n1,2\n", "3"), HasSubstr("expected a column 3 for --label"));
  EXPECT_THAT(asking("a,b\n1,2\n", "0"), HasSubstr("expected a column 0 for --label"));
  EXPECT_THAT(asking("1,2\n", "b"), HasSubstr("expected a header with a column 'b' for --label"));
  EXPECT_THAT(csv_complaint("a,b,c\n1,2,3\n", {.left_out = {"c"}}),
              HasSubstr("column 3 holds the label, and is asked for as --leave-out"));
  EXPECT_THAT(csv_complaint("a,b\n1,2\n", {.left_out = {"a"}}),
              HasSubstr("expected a column to learn from, found none that is not left out"));
}

/// Of two columns with one name the first was taken.
TEST(Csv, RefusesANameOfTwoColumns) {
  EXPECT_EQ(csv_complaint("x,a,x\n1,2,3\n", {.label = csv_label::named, .label_column = "x"}),
            "x.csv: line 1: expected one column called 'x' for --label (csv_options::label_column), found 2; "
            "number the columns from 1");
  EXPECT_THAT(csv_complaint("x,x,y\n1,2,3\n", {.left_out = {"x"}}),
              HasSubstr("expected one column called 'x' for --leave-out"));
}

TEST(Csv, TakesANumberForANameWhereTheHeaderHasIt) {
  const std::string text = "0,1,2,target\n5,6,7,8\n1,2,3,4\n";
  EXPECT_THAT(read(text, {.left_out = {"1"}}).features.values, ElementsAre(5, 7, 1, 3));
  EXPECT_THAT(read(text, {.left_out = {"3"}}).features.values, ElementsAre(5, 6, 1, 2)) << "no such name";
}

TEST(Csv, ComparesTheNameOfTheLabelWithThatOfTraining) {
  const scratch_folder folder;
  label_map labels;
  const csv_rows train = read_csv(folder.write("train", "a,kind\n1,x\n2,y\n"), {}, labels);
  for (const auto& [header, says] : {std::pair{"a,colour", "'kind', as in training, found 'colour'"},
                                     {"b,kind", "'a', as in training, found 'b'"}})
    EXPECT_EQ(complaint([&, text = header + std::string("\n1,x\n")] {
                read_csv(folder.write("x", text), train.layout, labels);
              }),
              std::string("x: line 1: expected a column called ") + says);
}

std::vector<std::string> remarks_on(std::string_view text) {
  const scratch_folder folder;
  return survey_csv(folder.write("x.csv", text), {}).remarks;
}

TEST(Csv, KnowsAHeaderOfNumbersByAWordOverNumbers) {
  for (const char* text : {"400,410,420,species\n0.1,0.2,0.3,a\n0.2,0.1,0.4,b\n0.5,0.2,0.3,a\n",
                           "4000,3500,3000,target\n1,5,3,8\n4,2,6,9\n1,5,3,8\n"}) {
    EXPECT_EQ(read(text).labels.size(), 3U) << text;
    EXPECT_THAT(remarks_on(text), Contains(HasSubstr("is taken for a header; --header no"))) << text;
  }
  EXPECT_EQ(read("2,3,5,a\n4,1,2,b\n1,5,7,c\n").labels.size(), 3U) << "a row like others";
}

TEST(Csv, TakesWordsForNothingForNoHeader) {
  for (const char* first : {"None,None,None", "-,-,-", "\\N,.,NaT"})
    EXPECT_THAT(csv_complaint(first + std::string("\n1,2,3\n4,5,6\n")),
                HasSubstr("line 1: expected a finite number in column 1, found '"));
}

TEST(Csv, NamesTheLineThatRepeatsTheFirst) {
  EXPECT_EQ(csv_complaint("a,b\n1,2\na,b\n3,4\n"), "x.csv: line 3: expected a row, found the header again");
  EXPECT_THAT(remarks_on("colour,size\nred,big\ncolour,size\nblue,small\n"),
              Contains(HasSubstr("line 3 repeats the first line, which is taken for a row; --header yes")));
  EXPECT_THAT(
      csv_complaint("colour,size\nred,big\ncolour,size\nblue,small\n", {.header = csv_header::present}),
      HasSubstr("line 3: expected a row, found the header again"));
}

TEST(Csv, SaysWhatLooksLikeAMistake) {
  const auto says = [](std::string_view text, std::string_view words) {
    EXPECT_THAT(remarks_on(text), Contains(HasSubstr(std::string(words)))) << text;
  };
  says("host,kind\n192.168.100.101,x\n192.168.100.102,y\n",
       "column 'host': '192.168.100.101' is read as one number, but may be a list; --categories");
  says("a,kind\n\"1,3\",x\n\"2,5\",y\n", "column 'a': '1,3' is read as one number, but may be a list");
  says("5,5 100,7 200\n6,6 100,8 200\n", "' is read as one number, but may be several; --delimiter ' '");
  std::string index = ",a,kind\n";
  for (int i = 0; i < 12; ++i) index += std::to_string(i * 5 % 13) + ",1." + std::to_string(i % 3) + ",x\n";
  says(index, "column 1: has no name, and another whole number in each row");
  for (const char* word : {"0x1f", "1.5D+02", "5.00-", "5.5kg", "CHF 5.50", "<0.50"})
    says(std::string("a,b,kind\n") + word + ",1,x\n" + word + ",2,y\n", "words that look like numbers");
  for (const char* word : {"\"Mar 1, 2020\"", "2020-01", "1:30 PM"})
    says(std::string("a,b,kind\n") + word + ",1,x\n" + word + ",2,y\n",
         "words that look like dates or times");
  for (const char* word : {"A5", "5a", "dog", "x-1", "may", "red 2"})
    EXPECT_THAT(remarks_on(std::string("a,b,kind\n") + word + ",1,x\n" + word + ",2,y\n"), IsEmpty()) << word;
}

TEST(Csv, SaysThatAWordForNothingIsACategory) {
  for (const char* word : {"None", "\\N", "-", "missing"})
    EXPECT_THAT(remarks_on(fmt::format("colour,kind\nred,x\n{},y\nred,x\n", word)),
                Contains(HasSubstr(fmt::format(
                    "column 'colour': '{}' is a category like others; leave the field empty if", word))));
  EXPECT_THAT(remarks_on("colour,kind\nred,x\n,y\nNA,x\nblue,x\n"), IsEmpty());
}

TEST(Csv, SaysThatACommentAboveTheRowsMayBeOne) {
  EXPECT_THAT(remarks_on("#1,4\n2,5\n3,6\n"),
              Contains(HasSubstr("the line above the first row, '#1,4', begins with '#'")));
  EXPECT_THAT(remarks_on("# a, b\n2,5\n3,6\n"), IsEmpty());
}

TEST(Csv, SaysHowWordsForNothingMayBeTaken) {
  for (const char* word : {"None", "\\N", "NaT", "-", "."})
    EXPECT_THAT(csv_complaint(std::string("a,kind\n1,x\n") + word + ",y\n3,x\n"),
                HasSubstr("; --missing (csv_options::missing) takes rows without a value"));
  EXPECT_EQ(
      csv_complaint("a,b,kind\n1,,x\n2,,y\n"),
      "x.csv: expected a value in column 'b', found none in any row; --leave-out b (csv_options::left_out) "
      "leaves it out");
}

TEST(Csv, SaysThatNumbersAreTooWide) {
  EXPECT_THAT(remarks_on("id,kind\n20000001,x\n20000000,y\n5,x\n"),
              Contains(HasSubstr("column 'id': different values become one, since numbers are 32 bits")));
  EXPECT_THAT(remarks_on("id,kind\n20000000,x\n20000000.0,y\n20000002,x\n"), IsEmpty());
}

TEST(Csv, TakesACategoryAsItIsWritten) {
  const csv_rows rows = read("0.5,x\n1,y\n1.0,x\n\"1,5\",y\n", {.categories = {"1"}});
  EXPECT_THAT(rows.layout.table.columns[0].categories, ElementsAre("0.5", "1", "1.0", "1,5"));
}

TEST(Csv, CountsColumnsWithThatOfTheLabel) {
  const csv_rows rows =
      read("1,x,7\n2,y,8\n", {.label = csv_label::named, .label_column = "2", .categories = {"3"}});
  EXPECT_THAT(rows.features.values, ElementsAre(1, 1, 0, 2, 0, 1));
}

TEST(Csv, RefusesMoreCategoriesThanAnyoneMeans) {
  std::string text;
  for (std::size_t i = 0; i <= field_numbers::most_categories; ++i) text += fmt::format("key{},1,0\n", i);
  EXPECT_EQ(csv_complaint(text, {.label = csv_label::last}),
            "x.csv: line 4097: expected at most 4096 different words in column 1, found 'key4096'");
}

/// Categories take more memory than the file does.
TEST(Csv, LimitsTheMemoryOfCategories) {
  const scratch_folder folder;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "w" + std::to_string(i) + ",1,0\n";
  const auto file = folder.write("x.csv", text);
  label_map labels;
  constexpr std::uint64_t bytes = 100 * (100 + 1 + 1) * 4;
  EXPECT_NO_THROW(read_csv(file, {.label = csv_label::last, .limit = {bytes}}, labels));
  label_map others;
  EXPECT_THAT(complaint([&] { read_csv(file, {.label = csv_label::last, .limit = {bytes - 1}}, others); }),
              HasSubstr("of memory, found more"));
}

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
  EXPECT_THAT(fields_of(",,"), Optional(ElementsAre("", "", "")));
  for (const char* nothing : {"", "  "}) EXPECT_THAT(fields_of(nothing), Optional(ElementsAre("")));
  EXPECT_THAT(fields_of("\"\",1"), Optional(ElementsAre("", "1")));
  EXPECT_THAT(fields_of(" 1 ,\t2, \" a \" "), Optional(ElementsAre("1", "2", " a ")))
      << "blanks in quotes stay";
}

TEST(CsvFields, GoOnInTheNextLineWithinQuotes) {
  csv_fields splitter(',');
  std::vector<std::string_view> fields;
  EXPECT_EQ(splitter.add("1,\"open\"\""), csv_fields::record::open);
  EXPECT_EQ(splitter.add(""), csv_fields::record::open);
  EXPECT_EQ(splitter.add("end\",2"), csv_fields::record::whole);
  splitter.list(fields);
  EXPECT_THAT(fields, ElementsAre("1", "open\"\n\nend", "2"));
  EXPECT_EQ(splitter.add("\"a\"b,2"), csv_fields::record::misplaced);
  EXPECT_EQ(splitter.add("3,4"), csv_fields::record::whole) << "after a line that was refused";
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
