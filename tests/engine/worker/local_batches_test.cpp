#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/worker/local_samples.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace mailgrad {
namespace {

using ::testing::ElementsAreArray;
using ids = std::vector<std::uint32_t>;

std::shared_ptr<const dataset> samples_in_rows() {
  return std::make_shared<dataset>(testing::small_samples(12, 1));
}

TEST(LocalBatches, HaveTheBytesOfThoseThatAreSent) {
  const std::vector<std::shared_ptr<const dataset>> sets{
      samples_in_rows(), std::make_shared<dataset>(testing::sparse_samples(12, 1))};
  for (const auto& samples : sets) {
    const std::size_t room = room_for_entries(*samples, 4);
    local_batches own(samples, 4, room);
    for (const ids& which : {ids{3, 0, 11, 7}, ids{5, 6}, ids{1, 2, 3, 4}}) {
      batch sent;
      shape_batch(*samples, 4, room, sent);
      fill_batch(*samples, which, sent);
      const auto cut = own.cut(8, 2, which);
      EXPECT_EQ(cut->number, 8U);
      EXPECT_EQ(cut->epoch, 2U);
      EXPECT_EQ(cut->size, which.size());
      EXPECT_EQ(bytes_of(*cut), bytes_of(sent));
      EXPECT_THAT(cut->features.values(), ElementsAreArray(sent.features.values()));
      EXPECT_THAT(cut->columns.values<std::int32_t>(), ElementsAreArray(sent.columns.values<std::int32_t>()));
      EXPECT_THAT(cut->values.values(), ElementsAreArray(sent.values.values()));
      EXPECT_THAT(cut->labels.values<std::int32_t>(), ElementsAreArray(sent.labels.values<std::int32_t>()));
    }
  }
}

TEST(LocalBatches, KeepABatchThatSomebodyHolds) {
  local_batches own(samples_in_rows(), 4, 0);
  const auto first = own.cut(0, 0, ids{0, 1, 2, 3});
  const float before = first->features.values()[0];
  own.cut(1, 0, ids{8, 9, 10, 11});
  EXPECT_EQ(first->features.values()[0], before);
}

/// The numbers come from another process.
TEST(LocalBatches, RefuseNumbersThatMakeNoBatch) {
  local_batches own(samples_in_rows(), 4, 0);
  const auto sparse = std::make_shared<dataset>(sparse_features{9, {0, 3, 3, 4}, {0, 4, 8, 2}, {1, 2, 3, 4}},
                                                std::vector<std::int32_t>{0, 1, 1}, 2);
  local_batches own_sparse(sparse, 3, max_nonzeros(*sparse, 3));
  testing::expect_refused({
      {"no samples", [&] { own.cut(5, 0, ids{}); }, "batch 5: expected 1 to 4 samples, found 0"},
      {"too many samples",
       [&] {
         own.cut(5, 0, ids{0, 1, 2, 3, 4});
       },
       "found 5"},
      {"a sample that is not there",
       [&] {
         own.cut(5, 0, ids{0, 12});
       },
       "batch 5: expected samples of the 12 that there are, found 12"},
      {"the longest row three times",
       [&] {
         own_sparse.cut(5, 0, ids{0, 0, 0});
       },
       "expected rows of at most 4 entries together, found 9"},
      {"no set", [] { local_batches(nullptr, 4, 0); }, "there are no samples"},
  });
}

} // namespace
} // namespace mailgrad
