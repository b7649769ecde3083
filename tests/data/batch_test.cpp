#include <mailgrad/data/batch.hpp>
#include <mailgrad/tests/data/allocations.hpp>

#include <gmock/gmock.h>

#include <numeric>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;

using ids = std::vector<std::uint32_t>;

dataset rows_of_bytes() { return {byte_features{{1, 3, 1}, {0, 51, 255, 1, 2, 3, 4, 5, 6}}, {2, 0, 1}, 3}; }

dataset sparse_rows() {
  return {sparse_features{9, {0, 3, 3, 4, 6}, {0, 4, 8, 2, 1, 7}, {1, 2, 3, 4, 5, 6}}, {0, 1, 1, 0}, 2};
}

batch batch_of(const dataset& d, const ids& samples) {
  batch made;
  fill_batch(d, samples, made);
  return made;
}

TEST(Batch, ScalesBytesAndKeepsTheirDims) {
  const batch b = batch_of(rows_of_bytes(), {2, 0});
  EXPECT_EQ(b.size, 2U);
  EXPECT_EQ(b.features.dims(), (shape{2, 1, 3, 1}));
  const auto x = b.features.values();
  EXPECT_FLOAT_EQ(x[0], 4.0F / 255);
  EXPECT_FLOAT_EQ(x[3], 0.0F);
  EXPECT_FLOAT_EQ(x[4], 0.2F);
  EXPECT_FLOAT_EQ(x[5], 1.0F);
  EXPECT_THAT(b.labels.values<std::int32_t>(), ElementsAre(1, 2));
}

TEST(Batch, TakesNumbersAsTheyAre) {
  const batch pairs = batch_of({float_features{{2}, {1.5F, -2, 3, 4}}, {0, 1}, 2}, {1, 0, 1});
  EXPECT_EQ(pairs.features.dims(), (shape{3, 2}));
  EXPECT_THAT(pairs.features.values(), ElementsAre(3, 4, 1.5F, -2, 3, 4));
  const batch ones = batch_of({float_features{{1}, {1.5F, -2, 3}}, {0, 1, 0}, 2}, {2, 0, 1, 2});
  EXPECT_EQ(ones.features.dims(), (shape{4, 1}));
  EXPECT_THAT(ones.features.values(), ElementsAre(3, 1.5F, -2, 3));
}

/// No two of its rows are as long as the longest one twice.
TEST(Batch, HasRoomForTheLongestRowTwice) {
  const batch b = batch_of(sparse_rows(), {0, 0});
  ASSERT_GE(b.columns.size(), 6U);
  EXPECT_EQ(b.nonzeros, 6U);
  EXPECT_THAT(b.offsets.values<std::int32_t>(), ElementsAre(0, 3, 6));
  EXPECT_THAT(b.values.values().first(6), ElementsAre(1, 2, 3, 1, 2, 3));
}

TEST(Batch, HasTargetsWhereTheSetHas) {
  const dataset dense{float_features{{1}, {1, 2, 3}}, std::vector<float>{0.5F, -1, 7}};
  const dataset sparse{sparse_features{2, {0, 1, 2, 3}, {0, 1, 0}, {1, 1, 1}},
                       std::vector<float>{0.5F, -1, 7}};
  for (const dataset* d : {&dense, &sparse}) {
    const batch b = batch_of(*d, {2, 0});
    EXPECT_EQ(b.labels.type(), dtype::float32);
    EXPECT_THAT(b.labels.values(), ElementsAre(7.0F, 0.5F));
  }
}

TEST(Batch, HasCategoriesAndNumbers) {
  const dataset d{categorical_features{{2, 5}, {0, 4, 1, 3, 1, 0}, 1, {0.5F, 1.5F, 2.5F}}, {0, 1, 1}, 2};
  const batch b = batch_of(d, {2, 0});
  EXPECT_EQ(b.categories.dims(), (shape{2, 2}));
  EXPECT_THAT(b.categories.values<std::int32_t>(), ElementsAre(1, 0, 0, 4));
  EXPECT_THAT(b.features.values(), ElementsAre(2.5F, 0.5F));
  EXPECT_THAT(b.labels.values<std::int32_t>(), ElementsAre(1, 0));
}

TEST(Batch, HasCategoriesAlone) {
  const dataset d{categorical_features{{3}, {0, 2}, 0, {}}, std::vector<float>{0.5F, 1}};
  batch b = batch_of(d, {1});
  EXPECT_THAT(b.categories.values<std::int32_t>(), ElementsAre(2));
  EXPECT_THAT(b.labels.values(), ElementsAre(1.0F));
  const auto* memory = b.categories.data();
  fill_batch(d, ids{0}, b);
  EXPECT_EQ(b.categories.data(), memory) << "a batch keeps its memory";
}

TEST(Batch, ShiftsTheTargetsOfTokensByOne) {
  const dataset d{token_windows{{0, 1, 2, 3, 4, 5, 6}, 3, 3}, {}, 7};
  const batch b = batch_of(d, {1, 0});
  EXPECT_EQ(b.features.dims(), (shape{2, 3}));
  EXPECT_THAT(b.features.values<std::int32_t>(), ElementsAre(3, 4, 5, 0, 1, 2));
  EXPECT_THAT(b.labels.values<std::int32_t>(), ElementsAre(4, 5, 6, 1, 2, 3));
}

TEST(Batch, PadsSparseRowsToTheLongestThereCanBe) {
  const batch b = batch_of(sparse_rows(), {1, 3});
  EXPECT_EQ(b.nonzeros, 2U);
  EXPECT_THAT(b.columns.values<std::int32_t>(), ElementsAre(1, 7, -1, -1, -1));
  EXPECT_THAT(b.values.values(), ElementsAre(5, 6, 0, 0, 0));
  EXPECT_THAT(b.offsets.values<std::int32_t>(), ElementsAre(0, 0, 2));
  EXPECT_THAT(b.labels.values<std::int32_t>(), ElementsAre(1, 0));
}

TEST(Batch, PadsAnewWhereALongerBatchWas) {
  batch b = batch_of(sparse_rows(), {0, 3});
  fill_batch(sparse_rows(), ids{1, 2}, b);
  EXPECT_THAT(b.columns.values<std::int32_t>(), ElementsAre(2, -1, -1, -1, -1));
  EXPECT_THAT(b.values.values(), ElementsAre(4, 0, 0, 0, 0));
}

TEST(Batch, KeepsItsMemoryAndItsRoom) {
  batch b;
  shape_batch(sparse_rows(), 2, 8, b);
  const auto* columns = b.columns.data();
  const auto* labels = b.labels.data();
  fill_batch(sparse_rows(), ids{0, 3}, b);
  EXPECT_EQ(b.columns.data(), columns);
  EXPECT_EQ(b.labels.data(), labels);
  EXPECT_EQ(b.columns.size(), 8U);
  fill_batch(sparse_rows(), ids{2}, b); // the smaller one at the end of an epoch
  EXPECT_EQ(b.columns.data(), columns);
  EXPECT_EQ(b.labels.size(), 1U);
  batch dense = batch_of(rows_of_bytes(), {0, 1});
  const auto* features = dense.features.data();
  fill_batch(rows_of_bytes(), ids{2, 1}, dense);
  EXPECT_EQ(dense.features.data(), features);
}

TEST(Batch, AllocatesNothingOnceShaped) {
  const ids samples{2, 0};
  const std::vector<dataset> sets{rows_of_bytes(), sparse_rows(), {token_windows{{0, 1, 2, 1}, 1, 1}, {}, 3}};
  for (const dataset& d : sets) {
    batch b = batch_of(d, samples);
    const std::size_t before = allocations();
    fill_batch(d, samples, b);
    EXPECT_EQ(allocations(), before);
  }
}

TEST(MaxNonzeros, SumsTheLongestRows) {
  EXPECT_EQ(max_nonzeros(sparse_rows(), 1), 3U);
  EXPECT_EQ(max_nonzeros(sparse_rows(), 2), 5U);
  EXPECT_EQ(max_nonzeros(sparse_rows(), 100), 6U);
  EXPECT_EQ(max_nonzeros(rows_of_bytes(), 2), 0U);
}

/// All samples of a set, in their order.
batch whole_of(const dataset& d) {
  ids all(d.size());
  std::iota(all.begin(), all.end(), 0U);
  batch made;
  shape_batch(d, all.size(), max_nonzeros(d, all.size()), made);
  fill_batch(d, all, made);
  made.number = 7;
  return made;
}

TEST(BatchSlice, CopiesRowsAndLabels) {
  const dataset d(float_features{{2}, {1, 2, 3, 4, 5, 6, 7, 8}}, {0, 1, 2, 1}, 3);
  batch part;
  slice_batch(whole_of(d), 1, 2, part);
  EXPECT_EQ(part.size, 2U);
  EXPECT_EQ(part.number, 7U);
  EXPECT_EQ(part.features.dims(), (shape{2, 2}));
  EXPECT_THAT(part.features.values(), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(part.labels.values<std::int32_t>(), ElementsAre(1, 2));
  slice_batch(whole_of(d), 0, 1, part); // into the same memory, of another size
  EXPECT_THAT(part.features.values(), ElementsAre(1, 2));
}

TEST(BatchSlice, CountsEntriesOfSparseRowsAnew) {
  const dataset d(sparse_features{9, {0, 2, 2, 5}, {1, 4, 0, 3, 8}, {1, 2, 3, 4, 5}}, {0, 1, 0}, 2);
  batch part;
  const batch whole = whole_of(d);
  slice_batch(whole, 1, 2, part);
  EXPECT_THAT(part.offsets.values<std::int32_t>(), ElementsAre(0, 0, 3));
  EXPECT_THAT(part.columns.values<std::int32_t>().first(3), ElementsAre(0, 3, 8));
  EXPECT_THAT(part.values.values().first(3), ElementsAre(3, 4, 5));
  EXPECT_EQ(part.columns.size(), whole.columns.size());
  EXPECT_THAT(part.columns.values<std::int32_t>().subspan(3), ::testing::Each(-1));
  EXPECT_EQ(part.nonzeros, 3U);
}

TEST(BatchSlice, CopiesWindowsOfTokens) {
  batch part;
  slice_batch(whole_of({token_windows{{0, 1, 2, 3, 4, 3, 2}, 2, 2}, {}, 5}), 1, 2, part);
  EXPECT_THAT(part.features.values<std::int32_t>(), ElementsAre(2, 3, 4, 3));
  EXPECT_THAT(part.labels.values<std::int32_t>(), ElementsAre(3, 4, 3, 2));
}

} // namespace
} // namespace mailgrad
