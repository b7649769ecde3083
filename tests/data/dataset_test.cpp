#include <mailgrad/data/dataset.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace mailgrad {
namespace {

using ints = std::vector<std::int32_t>;
using sizes = std::vector<std::size_t>;

dataset three_pictures() { return {byte_features{{1, 2, 1}, {10, 11, 20, 21, 30, 31}}, {0, 1, 0}, 2}; }

dataset three_sparse_rows() {
  return {sparse_features{5, {0, 2, 2, 3}, {1, 4, 0}, {1.0F, 2.0F, 3.0F}}, {1, 0, 1}, 2};
}

TEST(Dataset, KnowsItsSamples) {
  const dataset d = three_pictures();
  EXPECT_EQ(d.size(), 3U);
  EXPECT_EQ(d.sample_dims(), (shape{1, 2, 1}));
  EXPECT_EQ(d.classes(), 2U);
  EXPECT_FALSE(d.is_sparse());
  EXPECT_TRUE(three_sparse_rows().is_sparse());
  EXPECT_EQ(three_sparse_rows().sample_dims(), (shape{5}));
}

TEST(Dataset, SlicesPictures) {
  const dataset part = three_pictures().slice(1, 2);
  EXPECT_EQ(part.size(), 2U);
  EXPECT_EQ(std::get<byte_features>(part.features()).values, (std::vector<std::uint8_t>{20, 21, 30, 31}));
  EXPECT_EQ(part.labels()[0], 1);
}

TEST(Dataset, SlicesSparseRowsWithTheWholeWidth) {
  const dataset part = three_sparse_rows().slice(1, 2);
  const auto& f = std::get<sparse_features>(part.features());
  EXPECT_EQ(f.width, 5U);
  EXPECT_EQ(f.offsets, (sizes{0, 0, 1}));
  EXPECT_EQ(f.columns, (ints{0}));
  EXPECT_EQ(f.values, (std::vector<float>{3.0F}));
}

TEST(Dataset, CountsWholeWindowsOfTokens) {
  const dataset d{token_windows{{0, 1, 2, 0, 1, 2, 0}, 2, 2}, {}, 3};
  EXPECT_EQ(d.size(), 3U);
  EXPECT_TRUE(d.is_tokens());
  EXPECT_EQ(std::get<token_windows>(d.slice(1, 1).features()).tokens, (ints{2, 0, 1}));
  EXPECT_EQ((dataset{token_windows{{0, 1}, 2, 2}, {}, 3}).size(), 0U);
}

dataset three_measurements() {
  return {float_features{{2}, {1, 2, 3, 4, 5, 6}}, std::vector<float>{0.5F, -1, 7}};
}

TEST(Dataset, HasTargetsInThePlaceOfLabels) {
  const dataset d = three_measurements();
  EXPECT_EQ(d.size(), 3U);
  EXPECT_TRUE(d.has_targets());
  EXPECT_EQ(d.labelled_with(), label_kind::numbers);
  EXPECT_EQ(d.classes(), 0U);
  EXPECT_TRUE(d.labels().empty());
  EXPECT_FALSE(three_pictures().has_targets());
  const dataset part = d.slice(1, 2);
  ASSERT_EQ(part.targets().size(), 2U);
  EXPECT_EQ(part.targets()[0], -1.0F);
  EXPECT_EQ(part.targets()[1], 7.0F);
}

dataset three_tickets() {
  return {categorical_features{{2, 5}, {0, 4, 1, 3, 1, 0}, 1, {0.5F, 1.5F, 2.5F}}, {0, 1, 1}, 2};
}

TEST(Dataset, HasCategoriesBesideNumbers) {
  const dataset d = three_tickets();
  EXPECT_EQ(d.size(), 3U);
  EXPECT_EQ(d.sample_dims(), shape{1});
  EXPECT_EQ(sizes(d.category_counts().begin(), d.category_counts().end()), (sizes{2, 5}));
  EXPECT_TRUE(three_pictures().category_counts().empty());
  const dataset part = d.slice(1, 2);
  const auto& f = std::get<categorical_features>(part.features());
  EXPECT_EQ(f.counts, (sizes{2, 5}));
  EXPECT_EQ(f.categories, (ints{1, 3, 1, 0}));
  EXPECT_EQ(f.values, (std::vector<float>{1.5F, 2.5F}));
}

TEST(Dataset, RefusesCategoriesThatDoNotFit) {
  const auto refuses = [](categorical_features f) {
    EXPECT_THROW((dataset{std::move(f), std::vector<float>{1}}), std::invalid_argument);
  };
  refuses({{}, {}, 1, {1}});
  refuses({{2, 2}, {1}, 0, {}});
  refuses({{2}, {2}, 0, {}});
  refuses({{2}, {-1}, 0, {}});
  refuses({{2}, {1}, 2, {1}});
}

TEST(Dataset, RefusesTargetsThatDoNotFit) {
  const float_features two{{1}, {1, 2}};
  EXPECT_THROW((dataset{two, std::vector<float>{1}}), std::invalid_argument);
  EXPECT_THROW((dataset{two, std::vector<float>{1, INFINITY}}), std::invalid_argument);
  EXPECT_THROW((dataset{token_windows{{0, 1}, 1, 1}, std::vector<float>{1}}), std::invalid_argument);
}

TEST(Dataset, RefusesPartsThatDoNotFit) {
  EXPECT_THROW((dataset{byte_features{{2}, {1, 2, 3}}, {0}, 1}), std::invalid_argument);
  EXPECT_THROW((dataset{byte_features{{2}, {1, 2}}, {0, 0}, 1}), std::invalid_argument);
  EXPECT_THROW((dataset{byte_features{{2}, {1, 2}}, {1}, 1}), std::invalid_argument);
  EXPECT_THROW((dataset{sparse_features{2, {0, 1}, {2}, {1.0F}}, {0}, 1}), std::invalid_argument);
  EXPECT_THROW((dataset{sparse_features{2, {0, 2}, {1}, {1.0F}}, {0}, 1}), std::invalid_argument);
  EXPECT_THROW((dataset{token_windows{{0, 3}, 1, 1}, {}, 3}), std::invalid_argument);
  EXPECT_THROW(three_pictures().slice(2, 2), std::out_of_range);
}

} // namespace
} // namespace mailgrad
