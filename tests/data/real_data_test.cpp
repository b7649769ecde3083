#include <mailgrad/data/batch.hpp>
#include <mailgrad/data/open.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace mailgrad {
namespace {

namespace fs = std::filesystem;

/// Folder of the real data sets; empty where they are not at hand.
fs::path real_data() {
  if (const char* folder = std::getenv("MAILGRAD_DATA")) return folder;
  return MAILGRAD_DATA_DIR;
}

#define NEEDS_REAL_DATA(name)                                                                                \
  if (real_data().empty() || !fs::exists(real_data() / (name))) GTEST_SKIP() << "no real data set " << (name)

data_split open_real(const char* name, const open_options& options = {}) {
  return open_data((real_data() / name).string(), options);
}

std::size_t count_label(const dataset& d, std::int32_t label) {
  return static_cast<std::size_t>(std::ranges::count(d.labels(), label));
}

void expect_sizes(const data_split& split, std::size_t train, std::size_t test, const shape& dims) {
  EXPECT_EQ(split.train.size(), train);
  EXPECT_EQ(split.test.size(), test);
  EXPECT_EQ(split.train.sample_dims(), dims);
  EXPECT_EQ(split.test.sample_dims(), dims);
}

void expect_ones(const data_split& split, std::size_t train, std::size_t test) {
  EXPECT_EQ(count_label(split.train, 1), train);
  EXPECT_EQ(count_label(split.test, 1), test);
}

double mean_byte(const dataset& d) {
  const auto& bytes = std::get<byte_features>(d.features()).values;
  return std::accumulate(bytes.begin(), bytes.end(), 0.0) / static_cast<double>(bytes.size());
}

/// Of the pictures of that label: it ties pictures to labels.
double mean_byte(const dataset& d, std::int32_t label) {
  const auto& pictures = std::get<byte_features>(d.features());
  const auto n = static_cast<std::ptrdiff_t>(pictures.dims.size());
  double sum = 0;
  for (std::size_t i = 0; i < d.size(); ++i)
    if (d.labels()[i] == label) {
      const auto first = pictures.values.begin() + static_cast<std::ptrdiff_t>(i) * n;
      sum = std::accumulate(first, first + n, sum);
    }
  return sum / static_cast<double>(static_cast<std::size_t>(n) * count_label(d, label));
}

TEST(RealData, OfMnist) {
  NEEDS_REAL_DATA("mnist");
  const data_split split = open_real("mnist");
  EXPECT_EQ(split.name, "mnist");
  expect_sizes(split, 60'000, 10'000, {28, 28, 1});
  EXPECT_EQ(split.train.classes(), 10U);
  EXPECT_LT(split.train.bytes(), 47'500'000U);
  EXPECT_NEAR(mean_byte(split.train) / 255, 0.130660, 1e-6);
  EXPECT_NEAR(mean_byte(split.test) / 255, 0.132515, 1e-6);
  EXPECT_NEAR(mean_byte(split.train, 1), 19.3797, 1e-3);
  EXPECT_NEAR(mean_byte(split.test, 0), 43.9391, 1e-3);
  EXPECT_EQ(split.train.labels()[0], 5);
  EXPECT_EQ(split.train.labels()[59'999], 8);
  EXPECT_EQ(split.test.labels()[9'999], 6);
}

TEST(RealData, OfFashionMnistByItsName) {
  if (!fs::exists("/usr/share/datasets/fashion-mnist"))
    GTEST_SKIP() << "Debian's package dataset-fashion-mnist is not installed";
  const data_split split = open_data("fashion-mnist");
  EXPECT_EQ(split.name, "fashion-mnist");
  expect_sizes(split, 60'000, 10'000, {28, 28, 1});
  EXPECT_NEAR(mean_byte(split.train) / 255, 0.286041, 1e-6);
  EXPECT_NEAR(mean_byte(split.train, 5), 34.8675, 1e-3);
  EXPECT_NEAR(mean_byte(split.test, 7), 43.0198, 1e-3);
  EXPECT_EQ(split.train.labels()[0], 9);
}

TEST(RealData, OfFruits) {
  NEEDS_REAL_DATA("fruits32");
  const data_split split = open_real("fruits32");
  expect_sizes(split, 3'600, 900, {32, 32, 3});
  EXPECT_EQ(split.class_names, (std::vector<std::string>{"Apple", "Cherry", "Tomato"}));
  for (std::int32_t label : {0, 1, 2}) EXPECT_EQ(count_label(split.train, label), 1'200U);
}

TEST(RealData, OfTinyShakespeare) {
  NEEDS_REAL_DATA("tinyshakespeare");
  const data_split split = open_real("tinyshakespeare");
  EXPECT_EQ(split.class_names.size(), 65U);
  EXPECT_EQ(std::get<token_windows>(split.train.features()).tokens.size() +
                std::get<token_windows>(split.test.features()).tokens.size(),
            1'115'394U);
}

TEST(RealData, OfA9a) {
  NEEDS_REAL_DATA("a9a");
  const data_split split = open_real("a9a");
  expect_sizes(split, 32'561, 16'281, {123});
  expect_ones(split, 7'841, 3'846);
  const auto entries = static_cast<double>(std::get<sparse_features>(split.train.features()).values.size());
  EXPECT_NEAR(entries / 32'561, 13.9, 0.05);
  EXPECT_EQ(split.class_names, (std::vector<std::string>{"-1", "+1"}));
}

TEST(RealData, OfAgaricus) {
  NEEDS_REAL_DATA("agaricus");
  const data_split split = open_real("agaricus");
  expect_sizes(split, 6'513, 1'611, {126});
  expect_ones(split, 3'140, 776);
}

TEST(RealData, OfFarmAds) {
  NEEDS_REAL_DATA("farm-ads");
  const data_split split = open_real("farm-ads");
  expect_sizes(split, 3'314, 829, {54'877});
  EXPECT_EQ(count_label(split.train, 1) + count_label(split.test, 1), 2'210U);
  EXPECT_EQ(std::max(max_nonzeros(split.train, 1), max_nonzeros(split.test, 1)), 2'300U);
}

TEST(RealData, OfLetter) {
  NEEDS_REAL_DATA("letter");
  const data_split split = open_real("letter");
  expect_sizes(split, 16'000, 4'000, {16});
  EXPECT_EQ(split.class_names.size(), 26U);
  EXPECT_EQ(split.class_names.back(), "Z");
  EXPECT_EQ(split.train.labels()[0], 'T' - 'A');
  const auto& values = std::get<float_features>(split.train.features()).values;
  EXPECT_FLOAT_EQ(values[0], 2.0F / 15);
  EXPECT_FLOAT_EQ(std::ranges::max(values), 1.0F);
}

TEST(RealData, OfOptdigits) {
  NEEDS_REAL_DATA("optdigits");
  const data_split split = open_real("optdigits");
  expect_sizes(split, 3'823, 1'797, {64});
  EXPECT_EQ(split.train.classes(), 10U);
}

double mean(std::span<const float> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST(RealData, OfMovieTweetings) {
  NEEDS_REAL_DATA("movietweetings-100k");
  const fs::path folder = real_data() / "movietweetings-100k";
  const dataset all = read_ratings(folder / "ratings.dat", folder / "movies.dat", {});
  EXPECT_EQ(all.size(), 100'000U);
  EXPECT_EQ(all.category_counts()[0], 16'554U);
  EXPECT_EQ(all.category_counts()[1], 10'506U);
  EXPECT_EQ(all.sample_dims(), shape{25}) << "genres";
  const double middle = mean(all.targets());
  double squares = 0;
  for (const float y : all.targets())
    squares += (static_cast<double>(y) - middle) * (static_cast<double>(y) - middle);
  EXPECT_NEAR(middle, 7.325, 5e-4);
  EXPECT_NEAR(std::sqrt(squares / 100'000), 1.879, 5e-4) << "the error of guessing the mean";
  EXPECT_EQ(std::ranges::count(all.targets(), 0.0F), 12);
}

TEST(RealData, OfMovieTweetingsIsCutAtRandomOrByTime) {
  NEEDS_REAL_DATA("movietweetings-100k");
  for (const rating_order order : {rating_order::random, rating_order::by_time}) {
    const data_split split = open_real("movietweetings-100k", {.ratings = {.order = order}});
    EXPECT_EQ(split.train.size(), 80'000U);
    EXPECT_EQ(split.test.size(), 20'000U);
    EXPECT_NEAR(mean(split.test.targets()), 7.325, 0.1) << "either part has users of every kind";
  }
}

} // namespace
} // namespace mailgrad
