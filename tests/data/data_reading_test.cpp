#include <mailgrad/data/data_reading.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace mailgrad {
namespace {

using namespace ::testing;

class OpenTable : public ::testing::Test {
protected:
  data_split open(std::string_view text, const open_options& options = {}) const {
    return open_data(folder.write("x.csv", text).string(), options);
  }
  /// A file for training and one to test on.
  data_split open_both(std::string_view train, std::string_view test,
                       const open_options& options = {}) const {
    folder.write("train.csv", train);
    folder.write("test.csv", test);
    return open_data(folder.path().string(), options);
  }
  static open_options known_from(const data_split& trained) {
    return {.known = known_data{trained.class_names, trained.divisors, trained.table}};
  }
  static const std::vector<float>& floats_of(const dataset& d) {
    return std::get<float_features>(d.features()).values;
  }

  scratch_folder folder;
};

/// A file that is sorted by its classes was cut into one class for training and another for testing.
TEST_F(OpenTable, DrawsTheTestPartFromEachClass) {
  std::string sorted;
  for (int i = 0; i < 100; ++i) sorted += std::to_string(i * 7 % 101) + (i < 50 ? ",first\n" : ",second\n");
  const data_split split = open(sorted);
  EXPECT_EQ(std::ranges::count(split.train.labels(), 0), 40);
  EXPECT_EQ(std::ranges::count(split.test.labels(), 0), 10);
  EXPECT_EQ(split.test.size(), 20U);
  EXPECT_THAT(split.remarks, IsEmpty());
  EXPECT_EQ(floats_of(open(sorted).test), floats_of(split.test)) << "the same seed, the same draw";
  EXPECT_NE(floats_of(open(sorted, {.seed = 2}).test), floats_of(split.test));
  open_options half;
  half.files.train_fraction = 0.5;
  EXPECT_EQ(open(sorted, half).test.size(), 50U);
}

TEST_F(OpenTable, SaysHowManyRowsWereLeftOut) {
  const open_options dropping{.csv = {.missing = missing_values::drop}};
  const data_split split = open("1,a\n?,b\n3,a\n4,b\n5,b\n", dropping);
  EXPECT_EQ(split.train.size() + split.test.size(), 4U);
  EXPECT_THAT(split.remarks.front(), "x.csv: 1 of 5 rows has missing values and was left out");
  EXPECT_THAT(open("1,a\n?,b\n3,a\n4,?\n5,b\n", dropping).remarks.front(),
              "x.csv: 2 of 5 rows have missing values and were left out");
}

std::string with_one(std::string_view odd, char delimiter) {
  std::string text = delimiter == ',' ? "a,b,kind\n" : "a;b;kind\n";
  for (int i = 0; i < 10; ++i)
    for (const std::string& field : {fmt::format("1.{}00", i), i == 3 ? std::string(odd) : std::to_string(i),
                                     std::string(i % 2 == 0 ? "x" : "y")})
      text += field + (field == "x" || field == "y" ? '\n' : delimiter);
  return text;
}

/// One field in another column turned 1.100 into 1100.
TEST_F(OpenTable, TakesOneFieldForNoEvidenceOfADecimalComma) {
  for (const auto& [odd, delimiter] : {std::pair{"\"3,5\"", ','}, {"3,5", ';'}, {"\"1.100,5\"", ','}}) {
    const data_split split = open(with_one(odd, delimiter), {.scale = feature_scale::none});
    EXPECT_LT(floats_of(split.train).front(), 2) << odd;
    EXPECT_THAT(split.remarks, Contains(HasSubstr("column 'a': '1.000' is read as 1, but may have "
                                                  "thousands; --decimal")));
  }
  const data_split small = open(with_one("1.100e-2", ';'), {.scale = feature_scale::none});
  EXPECT_LT(floats_of(small.train).front(), 2);
  EXPECT_THAT(small.remarks, IsEmpty());
}

TEST_F(OpenTable, SaysWhatAnotherColumnHasDecided) {
  const std::string text = "a;b;kind\n1.100;0,5;x\n2.100;1,5;y\n1.300;2,5;x\n3.100;7;y\n";
  const data_split split = open(text, {.scale = feature_scale::none});
  EXPECT_GE(floats_of(split.train).front(), 1100);
  EXPECT_THAT(split.remarks, Contains(HasSubstr("column 'a': '1.100' is read as 1100, but may have a "
                                                "fraction; --decimal (csv_options::decimal)")));
}

TEST_F(OpenTable, ReadsNumbersByTheSignThatIsAskedFor) {
  const auto first = [&](std::string_view text, char decimal) {
    return floats_of(open(text, {.csv = {.decimal = decimal}, .scale = feature_scale::none}).train).front();
  };
  EXPECT_GE(first("1.100,x\n1.200,y\n1.300,x\n", ','), 1100);
  EXPECT_LT(first("1,100;x\n1,200;y\n1,300;x\n", ','), 2);
  EXPECT_GE(first("1,100;x\n1,200;y\n1,300;x\n", '.'), 1100);
  EXPECT_THAT(complaint([&] { first("1.5;x\n2.5;y\n", ','); }),
              HasSubstr("line 1: expected a finite number in column 1, found '1.5'; --decimal"));
}

/// predict --rows and predict --data read the same fields as other numbers.
TEST_F(OpenTable, ReadsNumbersOfATestFileByTheSignsOfTraining) {
  open_options known = known_from(open("1.250;0.5;a\n1.750;1.5;b\n"));
  known.known->divisors = {};
  known.scale = feature_scale::none;
  EXPECT_THAT(floats_of(open("1.250;0,5;a\n1.500;1,5;b\n", known).test), ElementsAre(1.25F, 0.5F, 1.5F, 1.5F))
      << "the second column shows another sign itself";
  known.csv.decimal = ',';
  EXPECT_THAT(floats_of(open("1.250;0,5;a\n", known).test), ElementsAre(1250, 0.5F));
}

TEST_F(OpenTable, TellsClassesByTheSignsOfTheLabel) {
  std::string text = "a;kind\n";
  for (int i = 0; i < 12; ++i)
    text += fmt::format("{},5;{}\n", i, i % 3 == 0 ? "1.000" : i % 3 == 1 ? "1" : "1.250");
  const data_split split = open(text);
  EXPECT_THAT(split.class_names, ElementsAre("1", "1.000", "1.250"));
  EXPECT_THAT(open("a;kind\n1,5;1000\n2,5;1\n3,5;1.250\n", known_from(split)).test.labels(),
              ElementsAre(1, 0, 2));
}

TEST_F(OpenTable, SaysThatClassesAreAlike) {
  EXPECT_THAT(open("1,rose\n2,Rose\n3,tulip\n4,rose\n5,Rose\n6,tulip\n").remarks,
              Contains("x.csv: the classes 'Rose' and 'rose' differ in blanks or capitals alone"));
  EXPECT_THAT(open("1,a\n2,a\n3,a\n").remarks, ElementsAre(HasSubstr("are of one class, 'a'")));
  EXPECT_THAT(open("a,n\n1,20000000\n2,20000001\n3,0.5\n4,7\n", {.task = label_kind::numbers}).remarks,
              Contains(HasSubstr("the label, column 'n': different values become one")));
}

TEST_F(OpenTable, LooksAtNoLabelsWhereOnlyAnswersAreWanted) {
  open_options known = known_from(open("a,kind\n1,x\n2,y\n"));
  known.csv.answers = csv_answers::passed_over;
  const data_split asked = open("a,sort\n1,\n2,z\n3,?\n", known);
  EXPECT_EQ(asked.test.size(), 3U);
  EXPECT_FALSE(asked.reading->largest) << "nobody knows the classes";
}

TEST_F(OpenTable, CountsCommentsBelowTheFirstRow) {
  const data_split split =
      open("# made by hand\ntag,n,kind\n#a,1,x\n# a remark\nb,2,y\n#a,3,x\nb,4,y\n#c,5,x\n");
  EXPECT_EQ(split.train.size() + split.test.size(), 5U);
  EXPECT_THAT(split.table.columns[0].categories, ElementsAre("#a", "#c", "b"));
  EXPECT_EQ(split.reading->table->comments, 1U);
}

TEST_F(OpenTable, TellsWhatItMadeOfTheFile) {
  std::string text = "ort;wert;leer;art\n";
  for (int i = 0; i < 20; ++i)
    text += (i % 2 == 0 ? "K\xf6ln;" : "Bonn;") + (i == 7 ? "?" : std::to_string(i * i % 7) + ",5") +
            (i < 12 ? ";x;rot\n" : ";x;gr\xfcn\n");
  const data_split split = open(text, {.csv = {.missing = missing_values::drop, .left_out = {"leer"}}});
  ASSERT_TRUE(split.reading && split.reading->table);
  const data_reading& r = *split.reading;
  EXPECT_EQ(r.format, "CSV");
  EXPECT_EQ(r.table->encoding, "Windows-1252");
  EXPECT_EQ(r.table->delimiter, ';');
  EXPECT_EQ(r.table->decimal, ",");
  EXPECT_EQ(r.table->thousands, "");
  EXPECT_TRUE(r.table->header);
  EXPECT_EQ(r.table->numbers, 1U);
  EXPECT_EQ(r.table->categories, 1U);
  EXPECT_EQ(r.table->left_out, 1U);
  EXPECT_THAT(r.table->names_left_out, ElementsAre("leer"));
  EXPECT_EQ(r.table->label_column, 4U);
  EXPECT_EQ(r.table->label_name, "art");
  EXPECT_EQ(r.table->label_why, "the last column, by default");
  EXPECT_EQ(r.table->missing, 1U);
  EXPECT_EQ(r.table->dropped, 1U);
  EXPECT_EQ(r.table->became, missing_values::drop);
  EXPECT_EQ(r.task_why, "the label holds words");
  EXPECT_EQ(r.inputs, 3U);
  EXPECT_EQ(r.train + r.test, 19U);
  EXPECT_EQ(r.test_why, "0.2 of the file, drawn from each class in proportion");
  EXPECT_EQ(r.classes, 2U);
  EXPECT_EQ(r.smallest->name, "gr\u00fcn");
  EXPECT_EQ(r.largest->name, "rot");
  EXPECT_EQ(r.smallest->samples + r.largest->samples, r.train);
}

/// A whole number with an exponent is a code where labels are whole, and a number among fractions.
TEST_F(OpenTable, PredictsFractionsAlsoWhereOneNumberHasAnExponent) {
  const data_split split = open("1,0.5\n2,1.5\n3,2e3\n4,2.25\n5,0.75\n6,3.5\n");
  EXPECT_TRUE(split.train.has_targets());
  EXPECT_EQ(split.reading->task_why, "the label has fractions");
  EXPECT_FALSE(open("1,007\n2,7\n3,007\n4,7\n5,007\n6,7\n").train.has_targets());
}

/// One set may write its labels as "1" in one file and as "1.0" in the other.
TEST_F(OpenTable, KnowsWholeNumbersOfATestFileInAnySpelling) {
  const char* const train = "a,kind\n1,1\n2,0\n3,010\n";
  const open_options plain{.csv = {.delimiter = 0}};
  EXPECT_THAT(complaint([&] { open_both(train, "a;kind\n1,5;1.0\n2,5;+0\n3;010\n", plain); }),
              HasSubstr("expected 2 columns, found"));
  const data_split split = open_both(train, "a,kind\n\"1,5\",1.0\n\"2,5\",+0\n3,010\n", plain);
  EXPECT_THAT(split.test.labels(), ElementsAre(1, 0, 2));
  EXPECT_THAT(split.class_names, ElementsAre("0", "1", "010"));
  EXPECT_THAT(floats_of(split.test), ElementsAre(0.5F, 2.5F / 3, 1));
  EXPECT_EQ(split.reading->test_why, "test.csv");
}

/// Means are those of the training part alone.
TEST_F(OpenTable, FillsMissingValuesWithMeansOfTheTrainingFile) {
  const data_split split =
      open_both("colour,size,kind\nred,2,a\nred,,b\nblue,4,a\n?,6,b\n", "colour,size,kind\n,,a\nblue,100,b\n",
                {.csv = {.missing = missing_values::mean}, .scale = feature_scale::none});
  EXPECT_THAT(split.table.means, ElementsAre(1.0F / 3, 2.0F / 3, 4));
  EXPECT_THAT(floats_of(split.train), ElementsAre(0, 1, 2, 0, 1, 4, 1, 0, 4, 1.0F / 3, 2.0F / 3, 6));
  EXPECT_THAT(floats_of(split.test), ElementsAre(1.0F / 3, 2.0F / 3, 4, 1, 0, 100));
}

TEST_F(OpenTable, FillsMissingValuesWithMeansOfTheTrainingPart) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += std::to_string(1 << (i % 10)) + "," + (i % 8 == 0 ? "" : "3") + ",a\n";
  const data_split split =
      open(text, {.csv = {.missing = missing_values::mean}, .scale = feature_scale::none});
  double sum = 0;
  for (std::size_t i = 0; i < split.train.size(); ++i) sum += floats_of(split.train)[2 * i];
  EXPECT_FLOAT_EQ(split.table.means[0], static_cast<float>(sum / static_cast<double>(split.train.size())));
  EXPECT_EQ(split.table.means[1], 3);
}

TEST_F(OpenTable, DividesNumbersAndNotCategories) {
  const data_split split = open_both("colour,size,kind\nred,2,a\nblue,4,b\n", "colour,size,kind\nred,8,a\n");
  EXPECT_THAT(split.divisors, ElementsAre(1, 1, 4));
  EXPECT_THAT(floats_of(split.test), ElementsAre(0, 1, 2));
}

TEST_F(OpenTable, DividesByTheLargestNumberOfTheTrainingPart) {
  std::string text;
  for (int i = 1; i <= 20; ++i) text += std::to_string(i) + ",a\n";
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const data_split split = open(text, {.seed = seed});
    EXPECT_EQ(std::ranges::max(floats_of(split.train)), 1);
    if (split.divisors.front() == 20) continue;
    EXPECT_GT(std::ranges::max(floats_of(split.test)), 1);
    return;
  }
  FAIL() << "no draw has the largest number in the test part";
}

TEST_F(OpenTable, ReadsOtherRowsAsATrainedModelKnowsThem) {
  const data_split trained = open("red,2,?,a\nblue,4,1,b\nred,6,3,a\nblue,8,5,b\n",
                                  {.csv = {.label = csv_label::last, .missing = missing_values::mean}});
  const open_options known = known_from(trained);
  const data_split other = open("blue,?,2,b\n", known);
  ASSERT_EQ(other.test.size(), 1U);
  EXPECT_EQ(floats_of(other.test)[0], 1);
  EXPECT_FLOAT_EQ(floats_of(other.test)[2], trained.table.means[2] / trained.divisors[2]);
  EXPECT_THAT(other.test.labels(), ElementsAre(1));
  EXPECT_THAT(complaint([&] { open("pink,1,2,b\n", known); }), HasSubstr("one of the 2 words 'blue', 'red'"));
}

TEST_F(OpenTable, RefusesToCutAFolderThatBringsItsTestFile) {
  open_options half;
  half.files.train_fraction = 0.5;
  EXPECT_THAT(
      complaint([&] { open_both("1,a\n2,b\n", "1,a\n", half); }),
      HasSubstr("expected one file to cut, as a part for testing is asked for, found 'train.csv' with its "
                "test file 'test.csv'"));
}

std::vector<std::int32_t> sorted_labels(std::vector<std::size_t> sizes) {
  std::vector<std::int32_t> labels;
  for (std::size_t c = 0; c < sizes.size(); ++c)
    labels.insert(labels.end(), sizes[c], static_cast<std::int32_t>(c));
  return labels;
}

std::vector<std::size_t> classes_of(const std::vector<std::size_t>& rows,
                                    const std::vector<std::int32_t>& labels) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(std::ranges::max(labels)) + 1);
  for (const std::size_t row : rows) ++counts[static_cast<std::size_t>(labels[row])];
  return counts;
}

TEST(RowSplit, TakesEachRowOnce) {
  const auto labels = sorted_labels({30, 50, 20});
  const row_split split = draw_split(100, labels, 0.2, 7);
  std::vector<std::size_t> all = split.train;
  all.insert(all.end(), split.test.begin(), split.test.end());
  std::ranges::sort(all);
  for (std::size_t i = 0; i < 100; ++i) ASSERT_EQ(all.at(i), i);
  EXPECT_TRUE(std::ranges::is_sorted(split.train));
  EXPECT_TRUE(std::ranges::is_sorted(split.test));
}

TEST(RowSplit, DrawsFromEachClassInProportion) {
  struct row {
    std::vector<std::size_t> of_class;
    double share;
    std::vector<std::size_t> expected;
  };
  const row all[] = {{{30, 50, 20}, 0.2, {6, 10, 4}},
                     {{7, 7, 7}, 0.2, {2, 1, 1}},   // 21 * 0.2 = 4.2, and each wants 1.4
                     {{3, 6, 11}, 0.25, {1, 1, 3}}, // 0.75, 1.5, 2.75: rounding takes most from the last two
                     {{1, 9}, 0.9, {0, 8}}};        // one sample of each class is left for training
  for (const auto& [of_class, share, expected] : all) {
    const auto labels = sorted_labels(of_class);
    EXPECT_EQ(classes_of(draw_split(labels.size(), labels, share, 1).test, labels), expected);
  }
}

TEST(RowSplit, TestsOnSomethingEvenIfEachClassHasOneSample) {
  EXPECT_EQ(draw_split(4, sorted_labels({1, 1, 1, 1}), 0.25, 1).test.size(), 1U);
}

TEST(RowSplit, DependsOnTheSeedAlone) {
  EXPECT_EQ(draw_split(100, {}, 0.3, 5).test, draw_split(100, {}, 0.3, 5).test);
  EXPECT_NE(draw_split(100, {}, 0.3, 5).test, draw_split(100, {}, 0.3, 6).test);
  EXPECT_EQ(draw_split(100, {}, 0.3, 5).test.size(), 30U);
}

TEST(RowSplit, RefusesWhatCannotBeSplit) {
  EXPECT_THROW(draw_split(1, {}, 0.5, 1), std::invalid_argument);
  EXPECT_THROW(draw_split(9, {}, 0, 1), std::invalid_argument);
  EXPECT_THROW(draw_split(9, {}, 1, 1), std::invalid_argument);
}

TEST(RowSplit, CopiesRowsOfEachKind) {
  const std::vector<std::size_t> rows{0, 2};
  const dataset numbers(float_features{{2}, {1, 2, 3, 4, 5, 6}}, std::vector<std::int32_t>{0, 1, 1}, 2);
  const dataset two = take_rows(numbers, rows);
  EXPECT_THAT(std::get<float_features>(two.features()).values, ElementsAre(1, 2, 5, 6));
  EXPECT_THAT(two.labels(), ElementsAre(0, 1));
  EXPECT_EQ(two.classes(), 2U);
  const dataset bytes(byte_features{{1}, {7, 8, 9}}, std::vector<float>{0.5F, 1, 1.5F});
  EXPECT_THAT(std::get<byte_features>(take_rows(bytes, rows).features()).values, ElementsAre(7, 9));
  EXPECT_THAT(take_rows(bytes, rows).targets(), ElementsAre(0.5F, 1.5F));
  const dataset sparse(sparse_features{4, {0, 1, 3, 4}, {1, 0, 2, 3}, {1, 2, 3, 4}},
                       std::vector<std::int32_t>{0, 0, 0}, 1);
  const auto some = std::get<sparse_features>(take_rows(sparse, rows).features());
  EXPECT_THAT(some.offsets, ElementsAre(0, 1, 2));
  EXPECT_THAT(some.columns, ElementsAre(1, 3));
  EXPECT_THAT(some.values, ElementsAre(1, 4));
  const dataset text(token_windows{{1, 2, 3}, 1, 1}, {}, 4);
  EXPECT_THROW(take_rows(text, rows), std::invalid_argument);
}

data_split labelled(std::vector<std::int32_t> train, std::vector<std::int32_t> test, std::size_t classes) {
  const auto samples = [&](std::vector<std::int32_t> labels) {
    std::vector<float> zeros(labels.size());
    return dataset(float_features{{1}, std::move(zeros)}, std::move(labels), classes);
  };
  return {samples(std::move(train)), samples(std::move(test)), "x", {"a", "b", "c"}};
}

TEST(RowSplit, IsSaidToBeOfFewClassesOrOfFewSamples) {
  struct row {
    data_split data;
    Matcher<const std::vector<std::string>&> says;
  };
  data_split validated = labelled({0, 1}, {0, 1}, 2);
  validated.validation = labelled({1, 1}, {}, 2).train;
  std::vector<std::int32_t> ten(10);
  std::iota(ten.begin(), ten.end(), 0);
  const row all[] = {
      {labelled({1, 1}, {1}, 3), ElementsAre("all 2 samples to train on are of one class, 'b'")},
      {labelled({0, 1, 2, 2}, {1, 1}, 3),
       ElementsAre("the 2 samples to test on have none of 2 of the 3 classes: 'a', 'c'")},
      {validated, ElementsAre("the 2 samples to validate on have none of 1 of the 2 classes: 'a'")},
      {labelled({0, 0, 0, 0, 1, 1, 1, 2}, {0, 1}, 3),
       ElementsAre("1 of the 3 classes has one sample: 'c'", HasSubstr("to test on have none of 1"))},
      {labelled(ten, {0}, 10),
       ElementsAre("there are 10 classes for 11 samples", HasSubstr("to test on have none of 9"))},
      {labelled({0, 1, 1}, {1}, 2), ElementsAre(HasSubstr("to test on"))}, // a trial
      {labelled({0, 1}, {1, 0}, 2), IsEmpty()},
      {labelled({0, 1}, {}, 2), IsEmpty()}}; // nothing is tested
  for (const auto& [data, says] : all) EXPECT_THAT(remarks_on(data), says);
}

/// Sample i has the number i and the class i % 2.
data_split numbered(std::size_t count) {
  std::vector<float> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  std::vector<std::int32_t> labels(count);
  for (std::size_t i = 0; i < count; ++i) labels[i] = static_cast<std::int32_t>(i % 2);
  data_split split;
  split.train = dataset(float_features{{1}, std::move(numbers)}, std::move(labels), 2);
  return split;
}

const std::vector<float>& numbers_of(const dataset& d) {
  return std::get<float_features>(d.features()).values;
}

TEST(HoldOut, TakesEachSampleOnceAndOfEachClassInProportion) {
  data_split data = numbered(100);
  hold_out(data, 0.2, 7);
  EXPECT_EQ(data.validation.size(), 20U);
  EXPECT_EQ(std::ranges::count(data.validation.labels(), 1), 10);
  std::vector<float> all = numbers_of(data.train);
  all.insert(all.end(), numbers_of(data.validation).begin(), numbers_of(data.validation).end());
  std::ranges::sort(all);
  EXPECT_EQ(all, numbers_of(numbered(100).train));
  data_split other = numbered(100);
  hold_out(other, 0.2, 8);
  EXPECT_NE(numbers_of(other.validation), numbers_of(data.validation));
  EXPECT_EQ(data.validation.classes(), 2U);
}

TEST(HoldOut, TakesTheLastWhereTheOrderMeansSomething) {
  data_split data = numbered(5);
  hold_out(data, 0.4, 1, held_out::last);
  EXPECT_THAT(numbers_of(data.train), ElementsAre(0, 1, 2));
  EXPECT_THAT(numbers_of(data.validation), ElementsAre(3, 4));
}

TEST(HoldOut, TakesTheEndOfAText) {
  data_split data;
  data.train = dataset(token_windows{{1, 2, 3, 1, 2, 3, 1, 2, 3}, 2, 2}, {}, 4);
  hold_out(data, 0.25, 1);
  EXPECT_EQ(data.train.size(), 3U);
  EXPECT_EQ(data.validation.size(), 1U);
  EXPECT_THAT(std::get<token_windows>(data.validation.features()).tokens, ElementsAre(1, 2, 3));
}

TEST(HoldOut, TakesRowsOfArraysAndOfCategories) {
  data_split arrays;
  arrays.train = dataset::from({{"a", sample_array({4, 2}, std::vector<float>{0, 0, 1, 1, 2, 2, 3, 3})},
                                {"b", sample_array({4}, std::vector<std::int32_t>{0, 1, 2, 3})}},
                               sample_array({4, 2}, std::vector<float>{0, 10, 1, 11, 2, 12, 3, 13}));
  hold_out(arrays, 0.25, 1);
  const named_arrays& held = *arrays.validation.arrays();
  const float row = held.find("a")->values()[0];
  EXPECT_THAT(held.find("a")->values(), ElementsAre(row, row));
  EXPECT_THAT(held.find("b")->values<std::int32_t>(), ElementsAre(static_cast<std::int32_t>(row)));
  EXPECT_THAT(arrays.validation.targets(), ElementsAre(row, row + 10)) << "the targets of the same sample";
  EXPECT_EQ(arrays.train.size(), 3U);
  data_split rated;
  rated.train = dataset(categorical_features{{2, 9}, {0, 5, 1, 6, 0, 7}, 1, {0.5F, 0.6F, 0.7F}},
                        std::vector<float>{5, 6, 7});
  hold_out(rated, 0.3, 1);
  const auto& row_held = std::get<categorical_features>(rated.validation.features());
  EXPECT_EQ(static_cast<float>(row_held.categories.at(1)), rated.validation.targets()[0]);
  EXPECT_FLOAT_EQ(row_held.values.at(0) * 10, rated.validation.targets()[0]);
  EXPECT_THAT(row_held.counts, ElementsAre(2, 9));
}

TEST(HoldOut, LeavesASampleOnBothSides) {
  data_split few = numbered(3);
  hold_out(few, 0.01, 1);
  EXPECT_EQ(few.validation.size(), 1U);
  data_split most = numbered(3);
  hold_out(most, 0.99, 1);
  EXPECT_EQ(most.train.size(), 2U) << "one of each class";
}

TEST(HoldOut, RefusesWhatCannotBe) {
  for (const double share : {0.0, 1.0, -0.5, std::numeric_limits<double>::quiet_NaN()}) {
    data_split data = numbered(4);
    EXPECT_THROW(hold_out(data, share, 1), std::invalid_argument) << share;
    EXPECT_EQ(data.train.size(), 4U);
  }
  data_split one = numbered(1);
  EXPECT_THROW(hold_out(one, 0.5, 1), std::invalid_argument);
  data_split twice = numbered(10);
  hold_out(twice, 0.2, 1);
  EXPECT_THROW(hold_out(twice, 0.2, 1), std::invalid_argument);
  EXPECT_EQ(twice.train.size(), 8U);
}

} // namespace
} // namespace mailgrad
