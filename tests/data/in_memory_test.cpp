#include <mailgrad/data/batch.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

namespace mailgrad {
namespace {

using ::testing::ElementsAre;
using floats = std::vector<float>;
using ints = std::vector<std::int32_t>;

/// Three samples: a picture of 1 x 2 pixels, the number of its maker, and its class.
dataset three_named_pictures() {
  return dataset::from({{"image", sample_array({3, 1, 2}, floats{1, 2, 3, 4, 5, 6})},
                        {"maker", sample_array({3}, ints{70, 80, 90})}},
                       sample_array({3}, ints{0, 1, 0}), 2);
}

batch filled(const dataset& d, const std::vector<std::uint32_t>& samples) {
  batch made;
  fill_batch(d, samples, made);
  return made;
}

TEST(InMemory, FeedsEachArrayByItsName) {
  const dataset d = three_named_pictures();
  EXPECT_EQ(d.size(), 3U);
  EXPECT_EQ(d.classes(), 2U);
  const batch b = filled(d, {2, 0});
  ASSERT_EQ(b.inputs.size(), 2U);
  EXPECT_EQ(b.inputs[0].dims(), (shape{2, 1, 2}));
  EXPECT_THAT(b.inputs[0].values(), ElementsAre(5, 6, 1, 2));
  EXPECT_EQ(b.inputs[1].dims(), shape{2});
  EXPECT_THAT(b.inputs[1].values<std::int32_t>(), ElementsAre(90, 70));
  EXPECT_THAT(b.labels.values<std::int32_t>(), ElementsAre(0, 0));
}

TEST(InMemory, CallsASingleArrayFeatures) {
  const dataset d =
      dataset::from(sample_array({2, 3}, floats{1, 2, 3, 4, 5, 6}), sample_array({2}, floats{7, 8}));
  EXPECT_EQ(d.sample_dims(), shape{3});
  EXPECT_EQ(d.arrays()->all().front().name, "features");
  EXPECT_TRUE(d.has_targets());
  EXPECT_THAT(filled(d, {1}).labels.values(), ElementsAre(8));
}

TEST(InMemory, HasTargetsOfAnyWidth) {
  const dataset d =
      dataset::from(sample_array({3}, floats{1, 2, 3}), sample_array({3, 2}, floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(d.target_dims(), shape{2});
  const batch b = filled(d, {2, 1});
  EXPECT_EQ(b.labels.dims(), (shape{2, 2}));
  EXPECT_THAT(b.labels.values(), ElementsAre(5, 6, 3, 4));
  EXPECT_THAT(d.slice(1, 2).targets(), ElementsAre(3, 4, 5, 6));
}

TEST(InMemory, SlicesOfASetShareItsMemory) {
  const dataset d = three_named_pictures();
  const dataset part = d.slice(1, 2);
  EXPECT_EQ(part.size(), 2U);
  EXPECT_EQ(part.arrays()->find("image")->values().data(), d.arrays()->find("image")->values().data() + 2);
  EXPECT_THAT(filled(part, {0}).inputs[1].values<std::int32_t>(), ElementsAre(80));
  EXPECT_THAT(part.labels(), ElementsAre(1, 0));
}

TEST(InMemory, SlicesABatchIntoMicroBatches) {
  const batch whole = filled(three_named_pictures(), {0, 1, 2});
  batch part;
  slice_batch(whole, 1, 2, part);
  ASSERT_EQ(part.inputs.size(), 2U);
  EXPECT_THAT(part.inputs[0].values(), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(part.inputs[1].values<std::int32_t>(), ElementsAre(80, 90));
}

TEST(InMemory, KeepsTheMemoryOfABatchThatIsFilledAgain) {
  const dataset d = three_named_pictures();
  batch b = filled(d, {0, 1});
  const std::byte* const before = b.inputs[0].data();
  fill_batch(d, std::vector<std::uint32_t>{2, 1}, b);
  EXPECT_EQ(b.inputs[0].data(), before);
  EXPECT_THAT(b.inputs[0].values(), ElementsAre(5, 6, 3, 4));
}

TEST(SampleArray, CopiesASpanAndMovesAVector) {
  floats numbers{1, 2};
  const sample_array copied({2}, std::span<const float>(numbers));
  const float* const first = numbers.data();
  const sample_array moved({2}, std::move(numbers));
  EXPECT_NE(copied.values().data(), first);
  EXPECT_EQ(moved.values().data(), first);
}

TEST(SampleArray, BorrowsMemoryAndKeepsItsOwner) {
  auto owner = std::make_shared<floats>(floats{1, 2, 3, 4});
  const std::weak_ptr<floats> alive = owner;
  {
    dataset d = dataset::from(sample_array::borrow({2, 2}, std::span<const float>(*owner), owner),
                              sample_array({2}, ints{0, 0}), 1);
    EXPECT_EQ(d.arrays()->all().front().values.values().data(), owner->data());
    owner.reset();
    const dataset part = d.slice(1, 1);
    d = {};
    EXPECT_THAT(filled(part, {0}).inputs[0].values(), ElementsAre(3, 4));
  }
  EXPECT_TRUE(alive.expired());
}

TEST(SampleArray, RefusesWrongLengthsNullsAndShapesBeforeItReads) {
  const floats three{1, 2, 3};
  const std::span<const float> null_span(static_cast<const float*>(nullptr), 4);
  const std::span<const float> too_short(static_cast<const float*>(nullptr), 2); // unread: it would crash
  testing::expect_refused({
      {"too few",
       [&] {
         sample_array({2, 2}, three);
       },
       "sample_array: expected 4 values for shape 2x2, found 3"},
      {"a short span",
       [&] {
         sample_array({2, 2}, too_short);
       },
       "expected 4 values for shape 2x2, found 2"},
      {"null, copied",
       [&] {
         sample_array({2, 2}, null_span);
       },
       "4 values at a null pointer"},
      {"null, borrowed",
       [&] {
         sample_array::borrow({2, 2}, null_span);
       },
       "4 values at a null pointer"},
      {"no extent", [&] { sample_array(shape(), floats{1}); }, "its first one counts the samples"},
      {"too many extents",
       [&] {
         sample_array({1, 1, 1, 1, 1, 1, 1, 1, 1}, floats{1});
       },
       "at most 8"},
  });
}

TEST(InMemory, RefusesInputsThatDoNotFit) {
  const sample_array two({2}, floats{1, 2});
  const sample_array three({3, 1}, floats{1, 2, 3});
  const sample_array labels({2}, ints{0, 1});
  const auto of = [&](named_arrays inputs) { return dataset::from(std::move(inputs), labels, 2); };
  testing::expect_refused({
      {"lengths",
       [&] {
         of({{"user", two}, {"item", three}});
       },
       "input 'item' of shape 3x1 has 3 samples, where input 'user' has 2"},
      {"names",
       [&] {
         of({{"user", two}, {"user", two}});
       },
       "two inputs are called 'user'"},
      {"no name",
       [&] {
         of({{"", two}});
       },
       "an input has no name"},
      {"labels",
       [&] {
         of({{"labels", two}});
       },
       "no input may be called 'labels'"},
      {"none", [&] { of(named_arrays(std::vector<named_array>())); }, "there is no input"},
      {"empty samples",
       [&] {
         of({{"user", sample_array({2, 0}, floats{})}});
       },
       "samples without a number"},
      {"nan",
       [&] {
         of({{"user", sample_array({2, 2}, floats{1, 2, 3, NAN})}});
       },
       "input 'user': number 1 of sample 1 is nan"},
  });
}

TEST(InMemory, RefusesLabelsAndTargetsThatDoNotFit) {
  const sample_array x({2}, floats{1, 2});
  const auto labelled = [&](sample_array y) { return dataset::from(x, std::move(y), 3); };
  const auto aimed = [&](sample_array y) { return dataset::from(x, std::move(y)); };
  const float infinity = std::numeric_limits<float>::infinity();
  testing::expect_refused({
      {"too many",
       [&] {
         labelled({{3}, ints{0, 1, 2}});
       },
       "3 for 2"},
      {"out of range",
       [&] {
         labelled({{2}, ints{0, 3}});
       },
       "the label of sample 1 is 3, which is none of the 3 classes"},
      {"negative",
       [&] {
         labelled({{2}, ints{-1, 0}});
       },
       "the label of sample 0 is -1"},
      {"rank",
       [&] {
         labelled({{2, 1}, ints{0, 1}});
       },
       "labels of shape 2x1"},
      {"floats",
       [&] {
         labelled({{2}, floats{0, 1}});
       },
       "labels must be int32, found float32"},
      {"no classes",
       [&] {
         aimed({{2}, ints{0, 1}});
       },
       "targets must be float32, found int32"},
      {"short targets",
       [&] {
         aimed({{1}, floats{1}});
       },
       "1 for 2"},
      {"infinite",
       [&] {
         aimed({{2, 2}, floats{1, 2, infinity, 4}});
       },
       "target 0 of sample 1 is inf"},
      {"rank of targets",
       [&] {
         aimed({{2, 1, 1}, floats{1, 2}});
       },
       "targets of shape 2x1x1"},
      {"width 0",
       [&] {
         aimed({{2, 0}, floats{}});
       },
       "have no number"},
  });
}

} // namespace
} // namespace mailgrad
