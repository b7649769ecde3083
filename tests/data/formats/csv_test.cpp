#include <mailgrad/data/formats/csv.hpp>
#include <mailgrad/data/formats/csv_survey.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

csv_rows read(std::string_view text, csv_options options = {}) {
  const scratch_folder folder;
  label_map labels;
  return read_csv(folder.write("x.csv", text), options, labels);
}

std::string csv_complaint(std::string_view text) {
  return complaint([&] { read(text); });
}

TEST(Csv, ReadsRowsWithTheLabelLast) {
  const csv_rows rows = read("0.5,-2,1\n1e3,4,0\n");
  EXPECT_EQ(rows.features.dims, (shape{2}));
  EXPECT_THAT(rows.features.values, ElementsAre(0.5F, -2.0F, 1000.0F, 4.0F));
  EXPECT_THAT(rows.labels, ElementsAre(1, 0));
}

TEST(Csv, FindsALabelOfWordsInFront) {
  const csv_rows rows = read("T,2,8\nI,5,12\nT,1,1\n");
  EXPECT_EQ(rows.layout.table.label, 0U);
  EXPECT_THAT(rows.features.values, ElementsAre(2, 8, 5, 12, 1, 1));
  EXPECT_THAT(rows.labels, ElementsAre(1, 0, 1));
}

TEST(Csv, FindsTheLabelByItsName) {
  EXPECT_THAT(read("Label,a,b\n3,1,2\n4,5,6\n").features.values, ElementsAre(1, 2, 5, 6));
  EXPECT_THAT(read("a,b,class\n3,1,2\n4,5,6\n").features.values, ElementsAre(3, 1, 4, 5));
}

TEST(Csv, TakesTheLabelFromWhereItIsTold) {
  EXPECT_THAT(read("7,1,2\n8,3,4\n", {.label = csv_label::first}).features.values, ElementsAre(1, 2, 3, 4));
}

TEST(Csv, ReadsNumbersToPredict) {
  const csv_rows rows = read("a,b,target\n1,2,0.5\n3,4,-7e2\n", {.holds = label_kind::numbers});
  EXPECT_THAT(rows.features.values, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(rows.targets, ElementsAre(0.5F, -700.0F));
  EXPECT_TRUE(rows.labels.empty());
}

TEST(Csv, RefusesATargetThatIsNoFiniteNumber) {
  for (const char* target : {"x", "nan", "1e99", ""}) {
    const auto why =
        complaint([&] { read("1,2,3\n4,5," + std::string(target) + "\n", {.holds = label_kind::numbers}); });
    EXPECT_THAT(
        why, HasSubstr("line 2: expected a finite number in column 3, found '" + std::string(target) + "'"));
  }
}

TEST(Csv, LeavesOutAHeader) {
  EXPECT_EQ(read("a,b,c\n1,2,0\n").labels.size(), 1U);
  EXPECT_EQ(read("1,2,0\n3,4,1\n", {.header = csv_header::present}).labels.size(), 1U);
}

TEST(Csv, ReadsClassNamesWithDelimitersInThem) {
  const csv_rows rows = read("\"a,b\",1\n\"c \"\"d\"\"\",2\n\"a,b\",3\n");
  EXPECT_THAT(rows.labels, ElementsAre(0, 1, 0));
  EXPECT_THAT(rows.features.values, ElementsAre(1, 2, 3));
}

TEST(Csv, RefusesAQuoteThatIsOpenAtTheEndOfItsLine) {
  EXPECT_THAT(csv_complaint("a,1\n\"b,2\n"),
              HasSubstr("line 2: expected double quotes around the whole of a field"));
}

TEST(Csv, KnowsOtherDelimitersQuotesAndLineEnds) {
  for (const char* text : {"1;2;0\r\n3;4;1\r\n\r\n", "1\t2\t0\n3\t4\t1\n", " 1 , \"2\" ,\"0\"\n3,4,1"}) {
    const csv_rows rows = read(text);
    EXPECT_THAT(rows.features.values, ElementsAre(1, 2, 3, 4)) << text;
    EXPECT_THAT(rows.labels, ElementsAre(0, 1)) << text;
  }
}

TEST(Csv, ReadsATestFileByTheLayoutAndTheLabelsOfItsTrainingFile) {
  const scratch_folder folder;
  label_map labels;
  const csv_rows train = read_csv(folder.write("train", "b,1\na,2\nc,3\n"), {}, labels);
  const csv_rows test = read_csv(folder.write("test", gzipped("c,4\nc,5\n")), train.layout, labels);
  EXPECT_THAT(test.labels, ElementsAre(2, 2));
  EXPECT_EQ(complaint([&] { read_csv(folder.write("x", "a,1\nd,1\n"), train.layout, labels); }),
            "x: line 2: expected one of the 3 labels 'a', 'b', 'c', found 'd'");
  EXPECT_EQ(complaint([&] { read_csv(folder.write("x", "a,1,2\n"), train.layout, labels); }),
            "x: line 1: expected 2 columns, found 3");
}

TEST(Csv, RefusesFieldsThatAreNoFiniteNumbers) {
  EXPECT_EQ(csv_complaint("1,2,0\n1,abc,0\n"),
            "x.csv: line 2: expected a finite number in column 2, found 'abc'");
  EXPECT_THAT(csv_complaint("1,2,0\nnan,2,0\n"), HasSubstr("column 1, found 'nan'"));
  EXPECT_THAT(csv_complaint("1,2,0\n1,-inf,0\n"), HasSubstr("column 2, found '-inf'"));
  EXPECT_THAT(csv_complaint("1,2,0\n1,1e39,0\n"), HasSubstr("column 2, found '1e39'"));
  EXPECT_THAT(csv_complaint("1,2,0\n1,,0\n"), HasSubstr("column 2, found ''"));
  EXPECT_THAT(csv_complaint("1,2,0\n1,?,0\n"), HasSubstr("column 2, found '?'"));
  EXPECT_THAT(csv_complaint("1,2,0\n1,2 3,0\n"), HasSubstr("column 2, found '2 3'"));
}

TEST(Csv, RefusesAnotherNumberOfColumns) {
  EXPECT_EQ(csv_complaint("1,2,0\n1,0\n"), "x.csv: line 2: expected 3 columns, found 2");
  EXPECT_EQ(csv_complaint("1,2,0\n1,2,3,0\n"), "x.csv: line 2: expected 3 columns, found 4");
}

TEST(Csv, RefusesLabelsThatAreNone) {
  EXPECT_EQ(csv_complaint("1,2,0.5\n"), "x.csv: line 1: expected a label that is a whole number or a word, "
                                        "found '0.5'; a number to predict is a "
                                        "task of regression");
  EXPECT_THAT(csv_complaint("1,2,0\n1,2,nan\n"), HasSubstr("line 2: expected a label that is"));
  EXPECT_THAT(csv_complaint("1,2,0\n1,2,\n"), HasSubstr("found ''"));
}

TEST(Csv, TakesTheLabelByItsNameOrItsNumber) {
  for (const char* column : {"kind", "2"}) {
    const csv_rows rows =
        read("a,kind,b\n1,x,2\n3,y,4\n", {.label = csv_label::named, .label_column = column});
    EXPECT_THAT(rows.features.values, ElementsAre(1, 2, 3, 4)) << column;
    EXPECT_THAT(rows.labels, ElementsAre(0, 1));
    EXPECT_EQ(rows.layout.table.columns[1].name, "b");
  }
}

TEST(Csv, TakesTheLineWithANameThatIsAskedForAsItsHeader) {
  EXPECT_THAT(read("2019,kind\n1,0\n2,1\n", {.label = csv_label::named, .label_column = "kind"}).labels,
              ElementsAre(0, 1));
}

TEST(Csv, RefusesAColumnThatIsNotThere) {
  const auto asking = [](std::string_view text, const std::string& label) {
    return complaint([&] { read(text, {.label = csv_label::named, .label_column = label}); });
  };
  EXPECT_EQ(asking("a,b\n1,2\n", "c"), "x.csv: line 1: expected a column called 'c' for --label "
                                       "(csv_options::label_column), found 'a', 'b'");
  EXPECT_THAT(asking("a,b\n1,2\n", "3"), HasSubstr("expected a column 3 for --label"));
  EXPECT_THAT(asking("a,b\n1,2\n", "0"), HasSubstr("expected a column 0 for --label"));
  EXPECT_THAT(asking("1,2\n", "b"), HasSubstr("expected a header with a column 'b' for --label"));
  EXPECT_THAT(complaint([] { read("a,b,c\n1,2,3\n", {.left_out = {"c"}}); }),
              HasSubstr("column 3 holds the label, and is asked for as --leave-out"));
  EXPECT_THAT(complaint([] { read("a,b\n1,2\n", {.left_out = {"a"}}); }),
              HasSubstr("expected a column to learn from, found none that is not left out"));
}

/// Of two columns with one name the first was taken.
TEST(Csv, RefusesANameOfTwoColumns) {
  EXPECT_EQ(complaint([] { read("x,a,x\n1,2,3\n", {.label = csv_label::named, .label_column = "x"}); }),
            "x.csv: line 1: expected one column called 'x' for --label (csv_options::label_column), found 2; "
            "number the columns from 1");
  EXPECT_THAT(complaint([] { read("x,x,y\n1,2,3\n", {.left_out = {"x"}}); }),
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
  EXPECT_EQ(complaint([&] { read_csv(folder.write("x", "a,colour\n1,x\n"), train.layout, labels); }),
            "x: line 1: expected a column called 'kind', as in training, found 'colour'");
}

std::vector<std::string> remarks_on(std::string_view text) {
  const scratch_folder folder;
  return survey_csv(folder.write("x.csv", text), {}).remarks;
}

TEST(Csv, KnowsAHeaderOfNumbersByAWordOverNumbers) {
  for (const char* text : {"400,410,420,species\n0.1,0.2,0.3,a\n0.2,0.1,0.4,b\n0.5,0.2,0.3,a\n",
                           "4000,3500,3000,target\n1,5,3,8\n4,2,6,9\n1,5,3,8\n"}) {
    EXPECT_EQ(read(text).labels.size(), 3U) << text;
    EXPECT_THAT(remarks_on(text), testing::Contains(HasSubstr("is taken for a header; --header no"))) << text;
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
  EXPECT_THAT(
      remarks_on("colour,size\nred,big\ncolour,size\nblue,small\n"),
      testing::Contains(HasSubstr("line 3 repeats the first line, which is taken for a row; --header yes")));
  EXPECT_THAT(complaint([] {
                read("colour,size\nred,big\ncolour,size\nblue,small\n", {.header = csv_header::present});
              }),
              HasSubstr("line 3: expected a row, found the header again"));
}

TEST(Csv, SaysWhatLooksLikeAMistake) {
  const auto says = [](std::string_view text, std::string_view words) {
    EXPECT_THAT(remarks_on(text), testing::Contains(HasSubstr(std::string(words)))) << text;
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
    EXPECT_THAT(remarks_on(std::string("a,b,kind\n") + word + ",1,x\n" + word + ",2,y\n"), testing::IsEmpty())
        << word;
}

TEST(Csv, SaysThatAWordForNothingIsACategory) {
  for (const char* word : {"None", "\\N", "-", "missing"})
    EXPECT_THAT(remarks_on(fmt::format("colour,kind\nred,x\n{},y\nred,x\n", word)),
                testing::Contains(HasSubstr(fmt::format(
                    "column 'colour': '{}' is a category like others; leave the field empty if", word))));
  EXPECT_THAT(remarks_on("colour,kind\nred,x\n,y\nNA,x\nblue,x\n"), testing::IsEmpty());
}

TEST(Csv, SaysThatACommentAboveTheRowsMayBeOne) {
  EXPECT_THAT(remarks_on("#1,4\n2,5\n3,6\n"),
              testing::Contains(HasSubstr("the line above the first row, '#1,4', begins with '#'")));
  EXPECT_THAT(remarks_on("# a, b\n2,5\n3,6\n"), testing::IsEmpty());
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
  EXPECT_THAT(
      remarks_on("id,kind\n20000001,x\n20000000,y\n5,x\n"),
      testing::Contains(HasSubstr("column 'id': different values become one, since numbers are 32 bits")));
  EXPECT_THAT(remarks_on("id,kind\n20000000,x\n20000000.0,y\n20000002,x\n"), testing::IsEmpty());
}

TEST(Csv, MakesANumberOfEachCategory) {
  const csv_rows rows = read("colour,size,kind\nred,1,x\nblue,2,y\nred,3,x\n");
  EXPECT_EQ(rows.features.dims, (shape{3}));
  EXPECT_THAT(rows.features.values, ElementsAre(0, 1, 1, 1, 0, 2, 0, 1, 3));
  EXPECT_THAT(rows.layout.table.columns[0].categories, ElementsAre("blue", "red"));
}

TEST(Csv, MakesCategoriesOfNumbersThatAreStatedAsSuch) {
  const csv_rows rows = read("10,7,0\n9,7,1\n10,8,1\n", {.categories = {"1"}});
  EXPECT_THAT(rows.features.values, ElementsAre(0, 1, 7, 1, 0, 7, 0, 1, 8));
  EXPECT_THAT(rows.layout.table.columns[0].categories, ElementsAre("9", "10"));
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

TEST(Csv, TakesNoRowOfWordsForAHeaderIfTwoAreTheSame) {
  EXPECT_EQ(read("red,red,x\nblue,red,y\n").labels.size(), 2U);
}

/// Otherwise one slip of a pen would make categories of a column of numbers.
TEST(Csv, RefusesAColumnThatMixesWordsAndNumbers) {
  EXPECT_EQ(csv_complaint("red,1,x\n5,1,x\n"),
            "x.csv: line 2: expected a word, as in the rows before, in column 1, found '5'; --categories "
            "(csv_options::categories) takes numbers for words");
}

TEST(Csv, LeavesColumnsOut) {
  const csv_rows rows = read("key,a,kind\nk1,1,x\nk2,2,y\n", {.left_out = {"key"}});
  EXPECT_THAT(rows.features.values, ElementsAre(1, 2));
}

TEST(Csv, DropsRowsWithoutAValueIfTold) {
  for (const char* missing : {"", "?", "NA", "n/a", "NaN", "null"}) {
    const csv_rows rows =
        read("1,2,a\n3," + std::string(missing) + ",b\n5,6,b\n7,8,?\n", {.missing = missing_values::drop});
    EXPECT_THAT(rows.features.values, ElementsAre(1, 2, 5, 6)) << missing;
    EXPECT_THAT(rows.labels, ElementsAre(0, 1));
    EXPECT_EQ(rows.dropped, 2U);
  }
  EXPECT_EQ(complaint([] { read("?,2,a\n3,,b\n", {.missing = missing_values::drop}); }),
            "x.csv: expected a row without missing values, found none among 2");
}

TEST(Csv, MarksMissingValuesWhoseMeansAreNotKnownYet) {
  const csv_rows rows = read("1,red,a\n,blue,b\n5,?,b\n", {.missing = missing_values::mean});
  EXPECT_THAT(rows.features.values,
              ElementsAre(1, 0, 1, testing::IsNan(), 1, 0, 5, testing::IsNan(), testing::IsNan()));
}

TEST(Csv, SaysHowRowsWithoutAValueMayBeTaken) {
  EXPECT_EQ(csv_complaint("1,2,0\n1,?,0\n"),
            "x.csv: line 2: expected a finite number in column 2, found '?'; --missing drop or mean "
            "(csv_options::missing) takes rows without a value");
  EXPECT_EQ(
      complaint([] { read("1,,0\n2,NA,1\n", {.missing = missing_values::mean}); }),
      "x.csv: expected a value in column 2, found none in any row; --leave-out 2 (csv_options::left_out) "
      "leaves it out");
}

TEST(Csv, ReadsATestFileWithTheCategoriesOfItsTrainingFile) {
  const scratch_folder folder;
  label_map labels;
  const csv_rows train = read_csv(folder.write("train", "c,n,kind\nred,1,x\nblue,2,y\n"), {}, labels);
  const csv_rows test = read_csv(folder.write("test", "c,n,kind\nred,3,y\n"), train.layout, labels);
  EXPECT_THAT(test.features.values, ElementsAre(0, 1, 3));
  EXPECT_EQ(complaint([&] { read_csv(folder.write("x", "c,n,kind\npink,3,y\n"), train.layout, labels); }),
            "x: line 2: expected one of the 2 words 'blue', 'red' in column 1, found 'pink'");
  EXPECT_EQ(complaint([&] { read_csv(folder.write("x", "n,c,kind\n3,red,y\n"), train.layout, labels); }),
            "x: line 1: expected a column called 'c', as in training, found 'n'");
}

TEST(Csv, RefusesMoreCategoriesThanAnyoneMeans) {
  std::string text;
  for (std::size_t i = 0; i <= field_numbers::most_categories; ++i)
    text += "key" + std::to_string(i) + ",1,0\n";
  EXPECT_EQ(complaint([&] { read(text, {.label = csv_label::last}); }),
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

TEST(Csv, RefusesAFirstRowOfAnotherWidthThanTheHeader) {
  EXPECT_EQ(csv_complaint("a,b\n1,2,3\n"), "x.csv: line 2: expected 2 columns, found 3");
}

TEST(Csv, RefusesFilesWithoutRows) {
  EXPECT_EQ(csv_complaint(""), "x.csv: expected rows of numbers, found an empty file");
  EXPECT_EQ(csv_complaint("a,b\n"), "x.csv: line 1: expected rows after the header, found the end");
  EXPECT_EQ(csv_complaint("5\n"), "x.csv: line 1: expected a label and numbers between commas, found '5'");
}

} // namespace
} // namespace mailgrad
