#include <mailgrad/data/formats/libsvm.hpp>

#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <stdexcept>

namespace mailgrad {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

libsvm_rows read_libsvm(std::string_view text, const libsvm_options& options = {}) {
  const scratch_folder folder;
  label_map labels;
  return read_libsvm(folder.write("x", text), options, labels);
}

std::string svm_complaint(std::string_view text, const libsvm_options& options = {}) {
  return complaint([&] { read_libsvm(text, options); });
}

TEST(Libsvm, CountsColumnsFromZero) {
  for (const std::string& text :
       {std::string("+1 1:0.5 3:2 \n-1 2:-1e1\n"), gzipped("1 1:.5\t3:2\n-1 2:-10")}) {
    const libsvm_rows rows = read_libsvm(text);
    EXPECT_EQ(rows.features.width, 3U);
    EXPECT_THAT(rows.features.offsets, ElementsAre(0, 2, 3));
    EXPECT_THAT(rows.features.columns, ElementsAre(0, 2, 1));
    EXPECT_THAT(rows.features.values, ElementsAre(0.5F, 2.0F, -10.0F));
    EXPECT_THAT(rows.labels, ElementsAre(1, 0));
  }
}

TEST(Libsvm, ReadsRowsWithoutFeaturesAndComments) {
  const libsvm_rows rows = read_libsvm("0\n1 2:1 # a remark\n2 \n");
  EXPECT_THAT(rows.features.offsets, ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(rows.labels, ElementsAre(0, 1, 2));
}

TEST(Libsvm, PassesOverLinesOfCommentsAndOverQueries) {
  const libsvm_rows rows =
      read_libsvm("# made by hand\n#\n1 qid:7 1:1\n  # between\n0\tqid:8\t2:5 #!docid = 3\n");
  EXPECT_THAT(rows.features.offsets, ElementsAre(0, 1, 2));
  EXPECT_THAT(rows.features.columns, ElementsAre(0, 1));
  EXPECT_THAT(rows.labels, ElementsAre(1, 0));
  EXPECT_EQ(svm_complaint("1 1:1\n \n"), "x: line 2: expected a row, found an empty line");
  EXPECT_EQ(svm_complaint("1 1:1\n\n2 1:1\n"), "x: line 2: expected a row, found an empty line");
  EXPECT_EQ(svm_complaint("1 qid:x 1:1\n"),
            "x: line 1: expected a whole number behind 'qid:', found 'qid:x'");
  EXPECT_EQ(svm_complaint("1 1:1 qid:3\n"), "x: line 1: expected index:value, found 'qid:3'");
}

TEST(Libsvm, CountsFromZeroWhereItIsTold) {
  const libsvm_rows rows = read_libsvm("1 0:5 2:1\n0 1:3\n", {.numbering = column_numbering::from_zero});
  EXPECT_EQ(rows.features.width, 3U);
  EXPECT_THAT(rows.features.columns, ElementsAre(0, 2, 1));
  EXPECT_EQ(svm_complaint("1 0:5 3:1\n", {3, column_numbering::from_zero}),
            "x: line 1: expected an index from 0 to 2, found '3'");
  EXPECT_EQ(svm_complaint("1 1:5 1:1\n", {3, column_numbering::from_zero}),
            "x: line 1: expected an index above 1, found 1");
}

TEST(Libsvm, TellsWhetherAFileHasColumnZero) {
  const scratch_folder folder;
  for (const char* text : {"1 0:5\n", "1\n# 0\n0 qid:3 0:1 1:1\n", "1 1:1\n1\t0:1"})
    EXPECT_TRUE(has_column_zero(folder.write("x", text))) << text;
  for (const char* text : {"1 1:5\n", "0\n", "1 10:1 # 0:1\n", "0:1\n", ""})
    EXPECT_FALSE(has_column_zero(folder.write("x", text))) << text;
}

TEST(Libsvm, GivesATestFileTheWidthAndTheLabelsOfItsTrainingFile) {
  const scratch_folder folder;
  label_map labels;
  const libsvm_rows train = read_libsvm(folder.write("train", "3 5:1\n1 1:1\n2 2:1\n"), {}, labels);
  EXPECT_THAT(train.labels, ElementsAre(2, 0, 1));
  const libsvm_options as_wide{.features = train.features.width};
  const libsvm_rows test = read_libsvm(folder.write("test", "3 1:1\n"), as_wide, labels);
  EXPECT_EQ(test.features.width, 5U);
  EXPECT_THAT(test.labels, ElementsAre(2));
  EXPECT_EQ(complaint([&] { read_libsvm(folder.write("x", "3 1:1\n3 6:1\n"), as_wide, labels); }),
            "x: line 2: expected an index from 1 to 5, found '6'");
  EXPECT_EQ(complaint([&] { read_libsvm(folder.write("x", "4 1:1\n"), as_wide, labels); }),
            "x: line 1: expected one of the 3 labels '1', '2', '3', found '4'");
}

TEST(Libsvm, RefusesIndicesOutOfOrder) {
  EXPECT_EQ(svm_complaint("1 2:1 1:1\n"), "x: line 1: expected an index above 2, found 1");
  EXPECT_EQ(svm_complaint("1 2:1 2:1\n"), "x: line 1: expected an index above 2, found 2");
  EXPECT_EQ(svm_complaint("1 0:1\n", {4}), "x: line 1: expected an index from 1 to 4, found '0'");
}

TEST(Libsvm, RefusesAnIndexThatWouldTakeHugeWeights) {
  EXPECT_EQ(svm_complaint("1 2147483647:1\n"),
            "x: line 1: expected an index from 1 to 16777216, found '2147483647'; --features N "
            "(open_options::features) gives all rows N columns");
  EXPECT_THAT(svm_complaint("1 99999999999999999999999:1\n"), HasSubstr("expected an index from 1"));
  EXPECT_EQ(read_libsvm("1 20000000:1\n", {20'000'000}).features.width, 20'000'000U);
  EXPECT_THROW(read_libsvm("1 1:1\n", {std::size_t{1} << 31}), std::invalid_argument);
}

TEST(Libsvm, RefusesValuesThatAreNoFiniteNumbers) {
  EXPECT_EQ(svm_complaint("1 1:1\n1 2:nan\n"), "x: line 2: expected a finite number at index 2, found 'nan'");
  for (const char* value : {"inf", "-inf", "1e39", "", "x", "1x", "--1"})
    EXPECT_THAT(svm_complaint(std::string("1 7:") + value), HasSubstr("expected a finite number at index 7"));
}

TEST(Libsvm, RefusesWordsThatAreNoEntries) {
  for (const char* word : {"1", ":1", "a:1", "-1:1", "1.5:1"})
    EXPECT_EQ(svm_complaint("1 " + std::string(word)),
              "x: line 1: expected index:value, found '" + std::string(word) + "'");
}

TEST(Libsvm, RefusesLabelsThatAreNone) {
  for (const char* label : {"abc", "1:1", "1,2"})
    EXPECT_EQ(svm_complaint(" " + std::string(label) + " 1:1"),
              "x: line 1: expected a whole number as label, found '" + std::string(label) + "'");
  EXPECT_EQ(svm_complaint("0.5 1:1"),
            "x: line 1: expected a label that is a whole number or a word, found '0.5'");
}

TEST(Libsvm, RefusesFilesOfNothing) {
  EXPECT_EQ(svm_complaint(""), "x: expected a row, found an empty file");
  EXPECT_EQ(svm_complaint("1\n0\n"), "x: expected an index:value in some row, found none");
}

} // namespace
} // namespace mailgrad
