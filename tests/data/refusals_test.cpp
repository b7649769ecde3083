#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/data/batch.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/data/dealer.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace mailgrad {
namespace {

using testing::expect_refused;

using labels = std::vector<std::int32_t>;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinite = std::numeric_limits<float>::infinity();
constexpr std::size_t all = ~std::size_t{0};

TEST(Refusals, OfSamplesWhosePartsDoNotFit) {
  const shape eight_extents{1, 1, 1, 1, 1, 1, 1, 1};
  expect_refused({
      {"half a sample",
       [] {
         dataset(float_features{{2}, {1, 2, 3}}, labels{0}, 2);
       },
       "whole samples"},
      {"no features",
       [] {
         dataset(float_features{{0}, {}}, labels{}, 2);
       },
       "no features"},
      {"too few labels",
       [] {
         dataset(byte_features{{2}, {1, 2}}, labels{}, 2);
       },
       "one label"},
      {"too many labels",
       [] {
         dataset(byte_features{{2}, {1, 2}}, labels{0, 1}, 2);
       },
       "one label"},
      {"a label that is no class",
       [] {
         dataset(float_features{{1}, {1}}, labels{2}, 2);
       },
       "the label of sample 0 is"},
      {"a negative label",
       [] {
         dataset(float_features{{1}, {1}}, labels{-1}, 2);
       },
       "the label of sample 0 is"},
      {"no classes",
       [] {
         dataset(float_features{{1}, {1}}, labels{0}, 0);
       },
       "the label of sample 0 is"},
      {"too few targets",
       [] {
         dataset(float_features{{1}, {1}}, std::vector<float>{});
       },
       "one target"},
      {"no room for the batch's extent",
       [&] {
         dataset(float_features{eight_extents, {1}}, labels{0}, 1);
       },
       "extents"},
      {"no offsets",
       [] {
         dataset(sparse_features{2, {}, {}, {}}, labels{}, 1);
       },
       "disagree"},
      {"offsets behind the entries",
       [] {
         dataset(sparse_features{2, {0, 3}, {1}, {1}}, labels{0}, 1);
       },
       "disagree"},
      {"offsets that descend",
       [] {
         dataset(sparse_features{2, {0, 1, 0, 1}, {1}, {1}}, labels{0, 0, 0}, 1);
       },
       "disagree"},
      {"fewer values than columns",
       [] {
         dataset(sparse_features{2, {0, 1}, {1}, {}}, labels{0}, 1);
       },
       "disagree"},
      {"a column outside the width",
       [] {
         dataset(sparse_features{2, {0, 1}, {2}, {1}}, labels{0}, 1);
       },
       "a column"},
      {"a negative column",
       [] {
         dataset(sparse_features{2, {0, 1}, {-1}, {1}}, labels{0}, 1);
       },
       "a column"},
      {"windows of nothing",
       [] {
         dataset(token_windows{{0, 1, 0}, 0, 1}, labels{}, 2);
       },
       "a window"},
      {"windows that do not move",
       [] {
         dataset(token_windows{{0, 1, 0}, 1, 0}, labels{}, 2);
       },
       "a window"},
      {"a token that is no class",
       [] {
         dataset(token_windows{{0, 7, 0}, 1, 1}, labels{}, 2);
       },
       "token 1 is 7"},
      {"tokens with labels",
       [] {
         dataset(token_windows{{0, 1, 0}, 1, 1}, labels{0}, 2);
       },
       "one label"},
      {"tokens with targets",
       [] {
         dataset(token_windows{{0, 1, 0}, 1, 1}, std::vector<float>{1, 1});
       },
       "labels of tokens"},
      {"no categories",
       [] {
         dataset(categorical_features{{}, {}, 0, {}}, labels{}, 1);
       },
       "no categories"},
      {"half a row of categories",
       [] {
         dataset(categorical_features{{2, 2}, {1}, 0, {}}, labels{}, 1);
       },
       "whole samples"},
      {"a category outside its count",
       [] {
         dataset(categorical_features{{2, 2}, {1, 2}, 0, {}}, labels{0}, 1);
       },
       "a category"},
      {"too few numbers",
       [] {
         dataset(categorical_features{{2}, {1}, 3, {1, 2}}, labels{0}, 1);
       },
       "as many numbers"},
      {"numbers whose count wraps",
       [] {
         dataset(categorical_features{{2}, {1, 1}, (all >> 1) + 1, {}}, labels{0, 0}, 1);
       },
       "as many numbers"},
  });
}

TEST(Refusals, OfFeaturesThatAreNoNumbersNameThem) {
  std::vector<float> many(10'000, 1.0F);
  many[7'001] = nan;
  expect_refused({
      {"NaN",
       [] {
         dataset(float_features{{2}, {1, 2, 3, nan}}, labels{0, 0}, 1);
       },
       "number 1 of sample 1 is"},
      {"infinity",
       [] {
         dataset(float_features{{2}, {infinite, 2}}, labels{0}, 1);
       },
       "number 0 of sample 0 is inf"},
      {"minus infinity",
       [] {
         dataset(float_features{{1}, {1, -infinite}}, std::vector<float>{1, 2});
       },
       "number 0 of sample 1 is -inf"},
      {"one of many",
       [&] {
         dataset(float_features{{100}, many}, labels(100), 1);
       },
       "number 1 of sample 70 is"},
      {"an entry",
       [] {
         dataset(sparse_features{2, {0, 1}, {1}, {nan}}, labels{0}, 1);
       },
       "entry 0"},
      {"beside categories",
       [] {
         dataset(categorical_features{{2}, {1}, 1, {nan}}, labels{0}, 1);
       },
       "number 0 of sample 0"},
      {"the scale of bytes",
       [] {
         dataset(byte_features{{1}, {1}, infinite}, labels{0}, 1);
       },
       "the scale"},
      {"a scale that leads beyond",
       [] {
         dataset(byte_features{{1}, {1}, 3e38F}, labels{0}, 1);
       },
       "the scale"},
      {"target 0 of sample 0 is nan",
       [] {
         dataset(float_features{{1}, {1}}, std::vector<float>{nan});
       },
       "target 0 of sample 0 is nan"},
  });
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(dataset(float_features{{2}, {largest, -largest}}, labels{0}, 1).size(), 1U);
}

TEST(Refusals, OfSamplesThatAreNotThere) {
  const dataset d(float_features{{2}, {1, 2, 3, 4}}, labels{0, 1}, 2);
  const dataset nothing;
  const std::array<std::uint32_t, 2> behind{0, 2};
  const std::array<std::uint32_t, 1> first{0};
  batch b;
  batch part;
  fill_batch(d, first, b);
  dealer one({.samples = 2});
  expect_refused({
      {"slice", [&] { static_cast<void>(d.slice(1, 2)); }, "of 2"},
      {"slice from behind", [&] { static_cast<void>(d.slice(3, 0)); }, "of 2"},
      {"slice whose end wraps", [&] { static_cast<void>(d.slice(1, all)); }, "of 2"},
      {"fill", [&] { fill_batch(d, behind, b); }, "sample 2"},
      {"fill from nothing", [&] { fill_batch(nothing, first, b); }, "sample 0"},
      {"slice of a batch", [&] { slice_batch(b, 0, 2, part); }, "batch of 1"},
      {"slice of a batch whose end wraps", [&] { slice_batch(b, 1, all, part); }, "batch of 1"},
      {"slice of nothing", [&] { slice_batch(batch(), 0, 1, part); }, "batch of 0"},
      {"deal to no rank", [&] { one.next(1); }, "rank 1"},
      {"count of no rank", [&] { static_cast<void>(one.dealt(7)); }, "rank 7"},
      {"leave of no rank", [&] { one.leave(1); }, "rank 1"},
      {"deal no samples", [] { dealer({.samples = 0}); }, "no samples"},
      {"deal empty batches", [] { dealer({.samples = 2, .batch_size = 0}); }, "a batch"},
      {"deal to nobody", [] { dealer({.samples = 2, .ranks = 0}); }, "no ranks"},
  });
}

} // namespace
} // namespace mailgrad
