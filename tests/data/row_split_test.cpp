#include <mailgrad/data/row_split.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace mailgrad {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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
  const auto labels = sorted_labels({30, 50, 20});
  EXPECT_THAT(classes_of(draw_split(100, labels, 0.2, 1).test, labels), ElementsAre(6, 10, 4));
  const auto odd = sorted_labels({7, 7, 7}); // 21 * 0.2 = 4.2, and each wants 1.4
  EXPECT_THAT(classes_of(draw_split(21, odd, 0.2, 1).test, odd), ElementsAre(2, 1, 1));
}

/// 0.75, 1.5 and 2.75 of the classes: the two that rounding takes most from get one more.
TEST(RowSplit, GivesWhatIsLeftToThoseThatRoundingTakesMostFrom) {
  const auto labels = sorted_labels({3, 6, 11});
  EXPECT_THAT(classes_of(draw_split(20, labels, 0.25, 1).test, labels), ElementsAre(1, 1, 3));
}

TEST(RowSplit, KeepsASampleOfEachClassForTraining) {
  const auto labels = sorted_labels({1, 9});
  EXPECT_THAT(classes_of(draw_split(10, labels, 0.9, 1).test, labels), ElementsAre(0, 8));
}

TEST(RowSplit, TestsOnSomethingEvenIfEachClassHasOneSample) {
  EXPECT_EQ(draw_split(4, sorted_labels({1, 1, 1, 1}), 0.25, 1).test.size(), 1U);
}

TEST(RowSplit, DependsOnTheSeedAlone) {
  EXPECT_EQ(draw_split(100, {}, 0.3, 5).test, draw_split(100, {}, 0.3, 5).test);
  EXPECT_NE(draw_split(100, {}, 0.3, 5).test, draw_split(100, {}, 0.3, 6).test);
  EXPECT_EQ(draw_split(100, {}, 0.3, 5).test.size(), 30U);
}

TEST(RowSplit, IsTheSameOnEveryMachine) { EXPECT_THAT(draw_split(10, {}, 0.3, 1).test, testing::SizeIs(3)); }

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

TEST(RowSplit, IsSaidToTrainOnOneClass) {
  EXPECT_THAT(remarks_on(labelled({1, 1}, {1}, 3)),
              ElementsAre("all 2 samples to train on are of one class, 'b'"));
}

TEST(RowSplit, IsSaidToTestOnFewerClassesThanItTrainsOn) {
  EXPECT_THAT(remarks_on(labelled({0, 1, 2, 2}, {1, 1}, 3)),
              ElementsAre("the 2 samples to test on have none of 2 of the 3 classes: 'a', 'c'"));
}

TEST(RowSplit, IsSaidToValidateOnFewerClassesThanItTrainsOn) {
  data_split data = labelled({0, 1}, {0, 1}, 2);
  data.validation = labelled({1, 1}, {}, 2).train;
  EXPECT_THAT(remarks_on(data),
              ElementsAre("the 2 samples to validate on have none of 1 of the 2 classes: 'a'"));
}

TEST(RowSplit, IsSaidToHaveClassesOfOneSample) {
  EXPECT_THAT(remarks_on(labelled({0, 0, 0, 0, 1, 1, 1, 2}, {0, 1}, 3)),
              ElementsAre("1 of the 3 classes has one sample: 'c'", HasSubstr("to test on have none of 1")));
  std::vector<std::int32_t> all(10);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_THAT(remarks_on(labelled(all, {0}, 10)),
              ElementsAre("there are 10 classes for 11 samples", HasSubstr("to test on have none of 9")));
  EXPECT_THAT(remarks_on(labelled({0, 1, 1}, {1}, 2)), ElementsAre(HasSubstr("to test on"))) << "a trial";
}

TEST(RowSplit, IsPassedOverInSilenceWhenAllIsWell) {
  EXPECT_THAT(remarks_on(labelled({0, 1}, {1, 0}, 2)), IsEmpty());
  EXPECT_THAT(remarks_on(labelled({0, 1}, {}, 2)), IsEmpty()) << "nothing is tested";
}

} // namespace
} // namespace mailgrad
