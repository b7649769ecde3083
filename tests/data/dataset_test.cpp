#include <mailgrad/data/batch.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/data/dealer.hpp>
#include <mailgrad/tests/data/allocations.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <array>
#include <limits>
#include <numeric>
#include <set>

namespace mailgrad {
namespace {

using namespace ::testing;
using testing::expect_refused;
using testing::misuse;

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
  EXPECT_THAT(part.columns.values<std::int32_t>().subspan(3), Each(-1));
  EXPECT_EQ(part.nonzeros, 3U);
}

TEST(BatchSlice, CopiesWindowsOfTokens) {
  batch part;
  slice_batch(whole_of({token_windows{{0, 1, 2, 3, 4, 3, 2}, 2, 2}, {}, 5}), 1, 2, part);
  EXPECT_THAT(part.features.values<std::int32_t>(), ElementsAre(2, 3, 4, 3));
  EXPECT_THAT(part.labels.values<std::int32_t>(), ElementsAre(3, 4, 3, 2));
}

using floats = std::vector<float>;
using ints = std::vector<std::int32_t>;
using sizes = std::vector<std::size_t>;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinite = std::numeric_limits<float>::infinity();
constexpr std::size_t most = ~std::size_t{0};

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
  EXPECT_THAT(std::get<byte_features>(part.features()).values, ElementsAre(20, 21, 30, 31));
  EXPECT_EQ(part.labels()[0], 1);
}

TEST(Dataset, SlicesSparseRowsWithTheWholeWidth) {
  const dataset part = three_sparse_rows().slice(1, 2);
  const auto& f = std::get<sparse_features>(part.features());
  EXPECT_EQ(f.width, 5U);
  EXPECT_EQ(f.offsets, (sizes{0, 0, 1}));
  EXPECT_EQ(f.columns, (ints{0}));
  EXPECT_EQ(f.values, (floats{3}));
}

TEST(Dataset, CountsWholeWindowsOfTokens) {
  const dataset d{token_windows{{0, 1, 2, 0, 1, 2, 0}, 2, 2}, {}, 3};
  EXPECT_EQ(d.size(), 3U);
  EXPECT_TRUE(d.is_tokens());
  EXPECT_EQ(std::get<token_windows>(d.slice(1, 1).features()).tokens, (ints{2, 0, 1}));
  EXPECT_EQ((dataset{token_windows{{0, 1}, 2, 2}, {}, 3}).size(), 0U);
}

TEST(Dataset, HasTargetsInThePlaceOfLabels) {
  const dataset d{float_features{{2}, {1, 2, 3, 4, 5, 6}}, floats{0.5F, -1, 7}};
  EXPECT_EQ(d.size(), 3U);
  EXPECT_TRUE(d.has_targets());
  EXPECT_EQ(d.labelled_with(), label_kind::numbers);
  EXPECT_EQ(d.classes(), 0U);
  EXPECT_TRUE(d.labels().empty());
  EXPECT_FALSE(three_pictures().has_targets());
  EXPECT_THAT(d.slice(1, 2).targets(), ElementsAre(-1, 7));
}

TEST(Dataset, HasCategoriesBesideNumbers) {
  const dataset d{categorical_features{{2, 5}, {0, 4, 1, 3, 1, 0}, 1, {0.5F, 1.5F, 2.5F}}, {0, 1, 1}, 2};
  EXPECT_EQ(d.size(), 3U);
  EXPECT_EQ(d.sample_dims(), shape{1});
  EXPECT_THAT(d.category_counts(), ElementsAre(2, 5));
  EXPECT_TRUE(three_pictures().category_counts().empty());
  const dataset part = d.slice(1, 2);
  const auto& f = std::get<categorical_features>(part.features());
  EXPECT_EQ(f.counts, (sizes{2, 5}));
  EXPECT_EQ(f.categories, (ints{1, 3, 1, 0}));
  EXPECT_EQ(f.values, (floats{1.5F, 2.5F}));
}

void expect_invalid(const misuse& m) {
  expect_refused(m);
  EXPECT_THROW(m.call(), std::invalid_argument) << m.what;
}

void refuse(const char* what, const feature_store& f, const ints& labels, std::size_t classes,
            const char* says) {
  expect_invalid({what, [&] { dataset(f, labels, classes); }, says});
}

void refuse(const char* what, const feature_store& f, const floats& targets, const char* says) {
  expect_invalid({what, [&] { dataset(f, targets); }, says});
}

TEST(Refusals, OfSamplesWhosePartsDoNotFit) {
  using byte_rows = byte_features;
  using rows = float_features;
  using sparse = sparse_features;
  using tokens = token_windows;
  using categories = categorical_features;
  refuse("half a sample", rows{{2}, {1, 2, 3}}, ints{0}, 2, "whole samples");
  refuse("half a sample of bytes", byte_rows{{2}, {1, 2, 3}}, ints{0}, 1, "whole samples");
  refuse("no features", rows{{0}, {}}, ints{}, 2, "no features");
  refuse("too few labels", byte_rows{{2}, {1, 2}}, ints{}, 2, "one label");
  refuse("too many labels", byte_rows{{2}, {1, 2}}, ints{0, 1}, 2, "one label");
  refuse("a label that is no class", rows{{1}, {1}}, ints{2}, 2, "the label of sample 0 is");
  refuse("a negative label", rows{{1}, {1}}, ints{-1}, 2, "the label of sample 0 is");
  refuse("no classes", rows{{1}, {1}}, ints{0}, 0, "the label of sample 0 is");
  refuse("too few targets", rows{{1}, {1, 2}}, floats{1}, "one target");
  refuse("no room for the batch's extent", rows{{1, 1, 1, 1, 1, 1, 1, 1}, {1}}, ints{0}, 1, "extents");
  refuse("no offsets", sparse{2, {}, {}, {}}, ints{}, 1, "disagree");
  refuse("offsets behind the entries", sparse{2, {0, 3}, {1}, {1}}, ints{0}, 1, "disagree");
  refuse("offsets that descend", sparse{2, {0, 1, 0, 1}, {1}, {1}}, ints{0, 0, 0}, 1, "disagree");
  refuse("fewer values than columns", sparse{2, {0, 1}, {1}, {}}, ints{0}, 1, "disagree");
  refuse("a column outside the width", sparse{2, {0, 1}, {2}, {1}}, ints{0}, 1, "a column");
  refuse("a negative column", sparse{2, {0, 1}, {-1}, {1}}, ints{0}, 1, "a column");
  refuse("windows of nothing", tokens{{0, 1, 0}, 0, 1}, ints{}, 2, "a window");
  refuse("windows that do not move", tokens{{0, 1, 0}, 1, 0}, ints{}, 2, "a window");
  refuse("a token that is no class", tokens{{0, 2, 0}, 1, 1}, ints{}, 2, "token 1 is 2");
  refuse("tokens with labels", tokens{{0, 1, 0}, 1, 1}, ints{0}, 2, "one label");
  refuse("tokens with targets", tokens{{0, 1, 0}, 1, 1}, floats{1, 1}, "labels of tokens");
  refuse("no categories", categories{{}, {}, 0, {}}, ints{}, 1, "no categories");
  refuse("numbers alone", categories{{}, {}, 1, {1}}, floats{1}, "no categories");
  refuse("half a row of categories", categories{{2, 2}, {1}, 0, {}}, ints{}, 1, "whole samples");
  refuse("a category outside its count", categories{{2, 2}, {1, 2}, 0, {}}, ints{0}, 1, "a category");
  refuse("a negative category", categories{{2}, {-1}, 0, {}}, floats{1}, "a category");
  refuse("too few numbers", categories{{2}, {1}, 3, {1, 2}}, ints{0}, 1, "as many numbers");
  refuse("numbers whose count wraps", categories{{2}, {1, 1}, (most >> 1) + 1, {}}, ints{0, 0}, 1,
         "as many numbers");
}

TEST(Refusals, OfFeaturesThatAreNoNumbersNameThem) {
  floats many(10'000, 1.0F);
  many[7'001] = nan;
  const float_features one{{1}, {1}};
  refuse("NaN", float_features{{2}, {1, 2, 3, nan}}, ints{0, 0}, 1, "number 1 of sample 1 is");
  refuse("infinity", float_features{{2}, {infinite, 2}}, ints{0}, 1, "number 0 of sample 0 is inf");
  refuse("minus", float_features{{1}, {1, -infinite}}, floats{1, 2}, "number 0 of sample 1 is -inf");
  refuse("one of many", float_features{{100}, many}, ints(100), 1, "number 1 of sample 70 is");
  refuse("an entry", sparse_features{2, {0, 1}, {1}, {nan}}, ints{0}, 1, "entry 0");
  refuse("beside categories", categorical_features{{2}, {1}, 1, {nan}}, ints{0}, 1, "number 0 of sample 0");
  refuse("the scale of bytes", byte_features{{1}, {1}, infinite}, ints{0}, 1, "the scale");
  refuse("a scale that leads beyond", byte_features{{1}, {1}, 3e38F}, ints{0}, 1, "the scale");
  refuse("a target", one, floats{nan}, "target 0 of sample 0 is nan");
  refuse("an infinite target", one, floats{infinite}, "target 0 of sample 0 is inf");
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(dataset(float_features{{2}, {largest, -largest}}, ints{0}, 1).size(), 1U);
}

TEST(Refusals, OfSamplesThatAreNotThere) {
  const dataset d(float_features{{2}, {1, 2, 3, 4}}, ints{0, 1}, 2), nothing;
  const std::array<std::uint32_t, 2> behind{0, 2};
  const std::array<std::uint32_t, 1> first{0};
  batch b, part, untouched;
  fill_batch(d, first, b);
  dealer one({.samples = 2});
  const misuse not_there[] = {
      {"slice", [&] { static_cast<void>(d.slice(1, 2)); }, "of 2"},
      {"slice from behind", [&] { static_cast<void>(d.slice(3, 0)); }, "of 2"},
      {"slice whose end wraps", [&] { static_cast<void>(d.slice(1, most)); }, "of 2"},
      {"fill", [&] { fill_batch(d, behind, untouched); }, "sample 2"},
      {"fill from nothing", [&] { fill_batch(nothing, first, b); }, "sample 0"},
      {"slice of a batch", [&] { slice_batch(b, 0, 2, part); }, "batch of 1"},
      {"slice of a batch whose end wraps", [&] { slice_batch(b, 1, most, part); }, "batch of 1"},
      {"slice of nothing", [&] { slice_batch(batch(), 0, 1, part); }, "batch of 0"},
      {"deal to no rank", [&] { one.next(1); }, "rank 1"},
      {"count of no rank", [&] { static_cast<void>(one.dealt(7)); }, "rank 7"},
      {"leave of no rank", [&] { one.leave(1); }, "rank 1"},
  };
  for (const misuse& m : not_there) {
    expect_refused(m);
    EXPECT_THROW(m.call(), std::out_of_range) << m.what;
  }
  EXPECT_EQ(untouched.size, 0U);
  expect_invalid({"deal no samples", [] { dealer({.samples = 0}); }, "no samples"});
  expect_invalid({"deal empty batches", [] { dealer({.samples = 2, .batch_size = 0}); }, "a batch"});
  expect_invalid({"deal to nobody", [] { dealer({.samples = 2, .ranks = 0}); }, "no ranks"});
  expect_invalid({"fewer slots than ranks", [] { dealer({.samples = 2, .ranks = 3, .slots = 2}); }, "slots"});
}

TEST(SamplesDigest, DiffersWithWhateverABatchIsCutFrom) {
  const ints two{0, 1};
  const sample_array numbers({2, 1}, floats{1, 2}), labels({2}, two);
  const std::pair<const char*, dataset> each[] = {
      {"bytes", {byte_features{{2}, {1, 2, 3, 4}}, two, 2}},
      {"another byte", {byte_features{{2}, {1, 2, 3, 5}}, two, 2}},
      {"another scale", {byte_features{{2}, {1, 2, 3, 4}, 1.0F / 128}, two, 2}},
      {"another shape", {byte_features{{1, 2}, {1, 2, 3, 4}}, two, 2}},
      {"another label", {byte_features{{2}, {1, 2, 3, 4}}, ints{1, 1}, 2}},
      {"more classes", {byte_features{{2}, {1, 2, 3, 4}}, two, 3}},
      {"numbers", {float_features{{2}, {1, 2, 3, 4}}, two, 2}},
      {"targets", {float_features{{2}, {1, 2, 3, 4}}, floats{0, 1}}},
      {"another target", {float_features{{2}, {1, 2, 3, 4}}, floats{0, 2}}},
      {"sparse", {sparse_features{4, {0, 1, 2}, {0, 1}, {1, 2}}, two, 2}},
      {"sparse, another row", {sparse_features{4, {0, 2, 2}, {0, 1}, {1, 2}}, two, 2}},
      {"sparse, another column", {sparse_features{4, {0, 1, 2}, {0, 2}, {1, 2}}, two, 2}},
      {"sparse, another width", {sparse_features{5, {0, 1, 2}, {0, 1}, {1, 2}}, two, 2}},
      {"tokens", {token_windows{{0, 1, 0, 1, 1}, 2, 2}, {}, 2}},
      {"another stride", {token_windows{{0, 1, 0, 1, 1}, 2, 1}, {}, 2}},
      {"another window", {token_windows{{0, 1, 0, 1, 1}, 1, 2}, {}, 2}},
      {"categories", {categorical_features{{2, 3}, {0, 2, 1, 1}, 0, {}}, floats{0, 1}}},
      {"more categories", {categorical_features{{2, 4}, {0, 2, 1, 1}, 0, {}}, floats{0, 1}}},
      {"categories and numbers", {categorical_features{{2, 3}, {0, 2, 1, 1}, 1, {5, 6}}, floats{0, 1}}},
      {"arrays", dataset::from({{"a", numbers}}, labels, 2)},
      {"an array of another name", dataset::from({{"b", numbers}}, labels, 2)},
  };
  std::set<std::string> digests;
  for (const auto& [what, d] : each) EXPECT_TRUE(digests.insert(digest_of(d)).second) << what;
  EXPECT_TRUE(digests.contains(digest_of({byte_features{{2}, {1, 2, 3, 4}}, two, 2})));
}

/// Three samples: a picture of 1 x 2 pixels, the number of its maker, and its class.
dataset three_named_pictures() {
  return dataset::from({{"image", sample_array({3, 1, 2}, floats{1, 2, 3, 4, 5, 6})},
                        {"maker", sample_array({3}, ints{70, 80, 90})}},
                       sample_array({3}, ints{0, 1, 0}), 2);
}

TEST(InMemory, FeedsEachArrayByItsName) {
  const dataset d = three_named_pictures();
  EXPECT_EQ(d.size(), 3U);
  EXPECT_EQ(d.classes(), 2U);
  batch b = batch_of(d, {2, 0});
  ASSERT_EQ(b.inputs.size(), 2U);
  EXPECT_EQ(b.inputs[0].dims(), (shape{2, 1, 2}));
  EXPECT_THAT(b.inputs[0].values(), ElementsAre(5, 6, 1, 2));
  EXPECT_EQ(b.inputs[1].dims(), shape{2});
  EXPECT_THAT(b.inputs[1].values<std::int32_t>(), ElementsAre(90, 70));
  EXPECT_THAT(b.labels.values<std::int32_t>(), ElementsAre(0, 0));
  const std::byte* const before = b.inputs[0].data();
  fill_batch(d, std::vector<std::uint32_t>{2, 1}, b);
  EXPECT_EQ(b.inputs[0].data(), before) << "the memory is kept";
  EXPECT_THAT(b.inputs[0].values(), ElementsAre(5, 6, 3, 4));
}

TEST(InMemory, CallsASingleArrayFeatures) {
  const dataset d =
      dataset::from(sample_array({2, 3}, floats{1, 2, 3, 4, 5, 6}), sample_array({2}, floats{7, 8}));
  EXPECT_EQ(d.sample_dims(), shape{3});
  EXPECT_EQ(d.arrays()->all().front().name, "features");
  EXPECT_TRUE(d.has_targets());
  EXPECT_THAT(batch_of(d, {1}).labels.values(), ElementsAre(8));
}

TEST(InMemory, HasTargetsOfAnyWidth) {
  const dataset d =
      dataset::from(sample_array({3}, floats{1, 2, 3}), sample_array({3, 2}, floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(d.target_dims(), shape{2});
  const batch b = batch_of(d, {2, 1});
  EXPECT_EQ(b.labels.dims(), (shape{2, 2}));
  EXPECT_THAT(b.labels.values(), ElementsAre(5, 6, 3, 4));
  EXPECT_THAT(d.slice(1, 2).targets(), ElementsAre(3, 4, 5, 6));
}

TEST(InMemory, SlicesOfASetShareItsMemory) {
  const dataset d = three_named_pictures();
  const dataset part = d.slice(1, 2);
  EXPECT_EQ(part.size(), 2U);
  EXPECT_EQ(part.arrays()->find("image")->values().data(), d.arrays()->find("image")->values().data() + 2);
  EXPECT_THAT(batch_of(part, {0}).inputs[1].values<std::int32_t>(), ElementsAre(80));
  EXPECT_THAT(part.labels(), ElementsAre(1, 0));
}

TEST(InMemory, SlicesABatchIntoMicroBatches) {
  batch part;
  slice_batch(batch_of(three_named_pictures(), {0, 1, 2}), 1, 2, part);
  ASSERT_EQ(part.inputs.size(), 2U);
  EXPECT_THAT(part.inputs[0].values(), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(part.inputs[1].values<std::int32_t>(), ElementsAre(80, 90));
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
    EXPECT_THAT(batch_of(part, {0}).inputs[0].values(), ElementsAre(3, 4));
  }
  EXPECT_TRUE(alive.expired());
}

TEST(SampleArray, RefusesWrongLengthsNullsAndShapesBeforeItReads) {
  const shape two_by_two{2, 2};
  const std::vector<std::size_t> nine(9, 1);
  const floats three{1, 2, 3};
  const std::span<const float> null_span(static_cast<const float*>(nullptr), 4);
  const std::span<const float> too_short(static_cast<const float*>(nullptr), 2); // unread: it would crash
  expect_refused({
      {"too few", [&] { sample_array(two_by_two, three); },
       "sample_array: expected 4 values for shape 2x2, found 3"},
      {"a short span", [&] { sample_array(two_by_two, too_short); },
       "expected 4 values for shape 2x2, found 2"},
      {"null, copied", [&] { sample_array(two_by_two, null_span); }, "4 values at a null pointer"},
      {"null, borrowed", [&] { sample_array::borrow(two_by_two, null_span); }, "4 values at a null pointer"},
      {"no extent", [&] { sample_array(shape(), floats{1}); }, "its first one counts the samples"},
      {"too many extents", [&] { sample_array(shape(nine), floats{1}); }, "at most 8"},
  });
}

TEST(InMemory, RefusesInputsThatDoNotFit) {
  const sample_array two({2}, floats{1, 2}), three({3, 1}, floats{1, 2, 3}), empty({2, 0}, floats{});
  const sample_array with_nan({2, 2}, floats{1, 2, 3, nan}), labels({2}, ints{0, 1});
  const auto refused = [&](const char* what, const std::vector<named_array>& inputs, const char* says) {
    expect_refused({what, [&] { dataset::from(named_arrays(inputs), labels, 2); }, says});
  };
  refused("lengths", {{"user", two}, {"item", three}},
          "input 'item' of shape 3x1 has 3 samples, where input 'user' has 2");
  refused("names", {{"user", two}, {"user", two}}, "two inputs are called 'user'");
  refused("no name", {{"", two}}, "an input has no name");
  refused("labels", {{"labels", two}}, "no input may be called 'labels'");
  refused("none", {}, "there is no input");
  refused("empty samples", {{"user", empty}}, "samples without a number");
  refused("nan", {{"user", with_nan}}, "input 'user': number 1 of sample 1 is nan");
}

TEST(InMemory, RefusesLabelsAndTargetsThatDoNotFit) {
  const sample_array x({2}, floats{1, 2});
  const auto labelled = [&](const char* what, const sample_array& y, const char* says) {
    expect_refused({what, [&] { dataset::from(x, y, 3); }, says});
  };
  const auto aimed = [&](const char* what, const sample_array& y, const char* says) {
    expect_refused({what, [&] { dataset::from(x, y); }, says});
  };
  labelled("too many", {{3}, ints{0, 1, 2}}, "3 for 2");
  labelled("out of range", {{2}, ints{0, 3}}, "the label of sample 1 is 3, which is none of the 3 classes");
  labelled("negative", {{2}, ints{-1, 0}}, "the label of sample 0 is -1");
  labelled("rank", {{2, 1}, ints{0, 1}}, "labels of shape 2x1");
  labelled("floats", {{2}, floats{0, 1}}, "labels must be int32, found float32");
  aimed("no classes", {{2}, ints{0, 1}}, "targets must be float32, found int32");
  aimed("short targets", {{1}, floats{1}}, "1 for 2");
  aimed("infinite", {{2, 2}, floats{1, 2, infinite, 4}}, "target 0 of sample 1 is inf");
  aimed("rank of targets", {{2, 1, 1}, floats{1, 2}}, "targets of shape 2x1x1");
  aimed("width 0", {{2, 0}, floats{}}, "have no number");
}

} // namespace
} // namespace mailgrad
