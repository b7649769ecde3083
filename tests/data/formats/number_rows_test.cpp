#include <mailgrad/data/formats/number_rows.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <cmath>
#include <sstream>

namespace mailgrad {
namespace {

using namespace ::testing;
using testing::expect_refused;

std::vector<float> all_of(const std::string& text, std::size_t columns, const row_options& options = {}) {
  std::istringstream in(text);
  number_rows rows(in, "rows.csv", columns, options);
  std::vector<float> numbers;
  while (rows.next(numbers)) continue;
  return numbers;
}

TEST(NumberRows, AreReadOneAfterTheOther) {
  std::istringstream in("1,2\n3,4\n");
  number_rows rows(in, "rows.csv", 2);
  std::vector<float> numbers;
  EXPECT_TRUE(rows.next(numbers));
  EXPECT_THAT(numbers, ElementsAre(1, 2));
  EXPECT_TRUE(rows.next(numbers));
  EXPECT_FALSE(rows.next(numbers));
  EXPECT_THAT(numbers, ElementsAre(1, 2, 3, 4));
}

TEST(NumberRows, MayHaveAHeaderAndTheEndsOfAnotherSystem) {
  EXPECT_THAT(all_of("\xef\xbb\xbfwidth;height\r\n\"1.5\";-2e3\r\n 4 ; 5\r\n\r\n", 2),
              ElementsAre(1.5F, -2000, 4, 5));
  EXPECT_THAT(all_of("7\n8\n", 1), ElementsAre(7, 8));
  EXPECT_THAT(all_of("", 3), IsEmpty());
  EXPECT_THAT(all_of("a,b\n", 2), IsEmpty());
}

TEST(NumberRows, RefuseWhatTheModelCannotRead) {
  const auto reading = [](const std::string& text) { return [text] { all_of(text, 2); }; };
  expect_refused({
      {"too many", reading("1,2\n1,2,3\n"),
       "rows.csv: line 2: expected 2 fields, as the model reads them, found 3"},
      {"too few", reading("1\n"), "expected 2 fields, as the model reads them, found 1"},
      {"a word", reading("1,2\n3,x\n"), "line 2: expected a finite number in column 2, found 'x'"},
      {"a second header", reading("a,b\nc,d\n"), "line 2: expected a finite number in column 1, found 'c'"},
      {"infinity", reading("1,inf\n"), "in column 2, found 'inf'"},
      {"more than float32", reading("1e39,1\n"), "in column 1"},
      {"an empty line", reading("1,2\n\n3,4\n"), "rows.csv: line 2: expected a row, found an empty line"},
      {"the first of several", reading("\n\r\n1,2\n"), "line 1: expected a row, found an empty line"},
      {"one after the header", reading("a,b\n\n1,2\n"), "line 2: expected a row, found an empty line"},
      {"an open quote", reading("\"1,2\n"), "line 1: expected double quotes"},
  });
}

std::vector<float> encoded(const std::string& text, const row_options& options) {
  return all_of(text, options.table.width(), options);
}

table_layout flowers() {
  return {.columns = {{"key", column_kind::left_out, {}},
                      {"colour", column_kind::category, {"blue", "red"}},
                      {"size", column_kind::number, {}}},
          .label = 3};
}

TEST(NumberRows, AreEncodedAsInTraining) {
  EXPECT_THAT(encoded("17,red,2\n18,blue,3\n", {flowers()}), ElementsAre(0, 1, 2, 1, 0, 3));
  EXPECT_THAT(encoded("key,colour,size\n17,red,2\n", {flowers()}), ElementsAre(0, 1, 2));
  EXPECT_THAT(encoded("17|red|2\n", {.table = flowers(), .delimiter = '|'}), ElementsAre(0, 1, 2));
  EXPECT_THAT(encoded("17,red,2\n", {.table = flowers(), .header = csv_header::absent}),
              ElementsAre(0, 1, 2));
}

/// As these rows may come one at a time, the signs are those of training.
TEST(NumberRows, WriteNumbersAsInTraining) {
  table_layout layout = flowers();
  layout.columns[2].signs = {',', true};
  EXPECT_THAT(encoded("17;red;2,5\n18;blue;1.234,5\n", {layout}), ElementsAre(0, 1, 2.5F, 1, 0, 1234.5F));
  EXPECT_THAT(encoded("2,5;3\n1,5;4\n", {{.columns = {{"", column_kind::number, {}, {',', false}},
                                                      {"", column_kind::number, {}}}}}),
              ElementsAre(2.5F, 3, 1.5F, 4))
      << "a first row of such numbers is no header";
  expect_refused({{"thousands that training had not", [] { encoded("17;red;1,234\n", {flowers()}); },
                   "line 1: expected a finite number in column 3, found '1,234'"}});
}

/// Otherwise the answers below it move up by a row.
TEST(NumberRows, LoseNoRowThatBeginsWithAHash) {
  expect_refused({{"a fault of a spreadsheet", [] { all_of("1,2\n#DIV/0!,4\n5,6\n", 2); },
                   "line 2: expected a finite number in column 1, found '#DIV/0!'"},
                  {"one in front", [] { all_of("#VALUE!,4\n5,6\n", 2); },
                   "line 1: expected a finite number in column 1, found '#VALUE!'"}});
}

TEST(NumberRows, AreReadByTheSignThatIsAskedFor) {
  EXPECT_THAT(encoded("17;red;1.234,5\n", {.table = flowers(), .decimal = ','}), ElementsAre(0, 1, 1234.5F));
}

TEST(NumberRows, MayHaveCommentsAndAnyEncoding) {
  EXPECT_THAT(encoded("# made by hand\nkey,colour,size\n# twice\n17,red,2\n", {flowers()}),
              ElementsAre(0, 1, 2));
  table_layout layout = flowers();
  layout.columns[1].categories = {"gr\u00fcn", "rot"};
  EXPECT_THAT(encoded("17,gr\xfcn,2\n18,rot,3\n", {layout}), ElementsAre(1, 0, 2, 0, 1, 3));
  EXPECT_THAT(encoded(std::string("\xff\xfe"
                                  "1\0,\0g\0r\0\xfc\0n\0,\0002\0\n\0",
                                  20),
                      {layout}),
              ElementsAre(1, 0, 2));
}

TEST(NumberRows, FillMissingValuesWithTheMeansOfTraining) {
  table_layout layout = flowers();
  layout.missing = missing_values::mean;
  layout.means = {0.25F, 0.75F, 8};
  EXPECT_THAT(encoded("1,?,2\n,red,\n", {layout}), ElementsAre(0.25F, 0.75F, 2, 0, 1, 8));
}

TEST(NumberRows, RefuseWhatTrainingDidNotSee) {
  const row_options learnt{flowers()};
  const auto reading = [&](const std::string& text) { return [&learnt, text] { encoded(text, learnt); }; };
  expect_refused({
      {"an unknown word", reading("1,red,2\n2,green,2\n"),
       "rows.csv: line 2: expected one of the 2 words 'blue', 'red' in column 2, found 'green'"},
      {"a missing value", reading("1,red,NA\n"), "line 1: expected a finite number in column 3, found 'NA'"},
      {"columns in another order", reading("key,size,colour\n1,2,red\n"),
       "line 1: expected a column called 'colour', as in training, found 'size'"},
      {"another width", [&] { all_of("", 5, learnt); },
       "rows.csv: expected columns that make 5 numbers, as the model reads them, found 3"},
  });
}

class ArrayRows : public ::testing::Test {
protected:
  std::filesystem::path array(const std::string& extents, const std::vector<float>& numbers) const {
    const std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': " + extents + ", }\n";
    const std::string before = std::string("\x93NUMPY\1\0", 8) + static_cast<char>(text.size()) + '\0';
    const std::string_view bytes(reinterpret_cast<const char*>(numbers.data()),
                                 numbers.size() * sizeof(float));
    return folder.write("a.npy", before + text + std::string(bytes));
  }

  const scratch_folder folder;
};

TEST_F(ArrayRows, GiveASampleAtATime) {
  array_rows rows(array("(2, 3)", {1, 2, 3, 4, 5, 6}), {3});
  std::vector<float> all;
  EXPECT_TRUE(rows.next(all));
  EXPECT_THAT(all, ElementsAre(1, 2, 3));
  EXPECT_TRUE(rows.next(all));
  EXPECT_THAT(all, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_FALSE(rows.next(all));
  EXPECT_EQ(all.size(), 6U);
}

TEST_F(ArrayRows, HaveTheShapeThatTheModelReads) {
  const shape picture{3, 2, 1};
  const std::vector<float> six{1, 2, 3, 4, 5, 6};
  EXPECT_NO_THROW(array_rows(array("(1, 3, 2)", six), picture)) << "a picture without its channel";
  EXPECT_NO_THROW(array_rows(array("(1, 6)", six), picture)) << "a picture as one row";
  EXPECT_NO_THROW(array_rows(array("(6,)", six), {1})) << "samples of one number";
  for (const char* extents : {"(1, 2, 3)", "(1, 1, 2, 3)", "(6,)", "(2, 3)"})
    EXPECT_THAT(
        complaint([&] { array_rows(array(extents, six), picture); }),
        HasSubstr("a.npy: array 'a': expected samples of 3x2x1, as the model reads them, along the first"))
        << extents;
  EXPECT_THAT(complaint([&] { array_rows(array("()", {1}), {1}); }), HasSubstr("expected samples of 1"));
}

TEST_F(ArrayRows, HaveFiniteNumbers) {
  array_rows rows(array("(2, 2)", {1, 2, 3, std::nanf("")}), {2});
  std::vector<float> all;
  EXPECT_TRUE(rows.next(all));
  EXPECT_EQ(complaint([&] { rows.next(all); }),
            "a.npy: array 'a': number 1 of sample 1 is nan; numbers must be finite");
}

} // namespace
} // namespace mailgrad
