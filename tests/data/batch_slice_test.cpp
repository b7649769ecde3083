#include <mailgrad/data/batch.hpp>

#include <gmock/gmock.h>

#include <numeric>

namespace mailgrad {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

/// All samples of a set, in their order.
batch whole_of(const dataset& d) {
  std::vector<std::uint32_t> all(d.size());
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
  EXPECT_THAT(part.columns.values<std::int32_t>().subspan(3), testing::Each(-1));
  EXPECT_EQ(part.nonzeros, 3U);
}

TEST(BatchSlice, CopiesWindowsOfTokens) {
  const dataset d(token_windows{{0, 1, 2, 3, 4, 3, 2}, 2, 2}, {}, 5);
  const batch whole = whole_of(d);
  batch part;
  slice_batch(whole, 1, 2, part);
  EXPECT_THAT(part.features.values<std::int32_t>(), ElementsAre(2, 3, 4, 3));
  EXPECT_THAT(part.labels.values<std::int32_t>(), ElementsAre(3, 4, 3, 2));
}

TEST(BatchSlice, RefusesSamplesThatAreNotThere) {
  const dataset d(float_features{{1}, {1, 2}}, {0, 1}, 2);
  batch part;
  EXPECT_THROW(slice_batch(whole_of(d), 1, 2, part), std::out_of_range);
}

} // namespace
} // namespace mailgrad
