#include <mailgrad/data/formats/label_map.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;

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

} // namespace
} // namespace mailgrad
