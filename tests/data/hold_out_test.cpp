#include <mailgrad/data/data_reading.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace mailgrad {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

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
  EXPECT_EQ(data.validation.classes(), 2U);
}

TEST(HoldOut, IsDrawnByTheSeed) {
  data_split one = numbered(50);
  data_split same = numbered(50);
  data_split other = numbered(50);
  hold_out(one, 0.2, 1);
  hold_out(same, 0.2, 1);
  hold_out(other, 0.2, 2);
  EXPECT_EQ(numbers_of(one.validation), numbers_of(same.validation));
  EXPECT_NE(numbers_of(one.validation), numbers_of(other.validation));
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
