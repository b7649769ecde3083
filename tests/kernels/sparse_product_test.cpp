#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

namespace mailgrad {
namespace {

using floats = std::vector<float>;
using indices = std::vector<std::int32_t>;

/// Compressed rows that own their memory, padded as a batch is.
struct owned_rows {
  indices columns, offsets{0};
  floats values;

  compressed_rows view() const { return {columns, values.data(), offsets}; }
};

owned_rows random_rows(std::size_t rows, std::int32_t columns, std::size_t padding) {
  std::mt19937 draw(17);
  owned_rows x;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::int32_t c = 0; c < columns; ++c) {
      if (draw() % 3 != 0 || i == 1) continue; // row 1 stays empty
      x.columns.push_back(c);
      x.values.push_back(static_cast<float>(draw() % 7) - 3);
    }
    x.offsets.push_back(static_cast<std::int32_t>(x.columns.size()));
  }
  x.columns.insert(x.columns.end(), padding, -1);
  x.values.insert(x.values.end(), padding, 0.0F);
  return x;
}

floats whole_numbers(std::size_t n) {
  std::mt19937 draw(5);
  floats v(n);
  for (float& f : v) f = static_cast<float>(draw() % 9) - 4; // whole numbers, so that sums are exact
  return v;
}

TEST(SparseProduct, AgreesWithAPlainLoopForAnyWidth) {
  constexpr std::size_t rows = 6, columns = 20;
  const owned_rows x = random_rows(rows, columns, 4);
  for (const std::size_t width : {1U, 2U, 3U, 4U, 8U, 9U, 26U}) {
    const floats table = whole_numbers(columns * width);
    floats y(rows * width, 9), expected(rows * width);
    for (std::size_t i = 0; i < rows; ++i)
      for (auto j = static_cast<std::size_t>(x.offsets[i]); j < static_cast<std::size_t>(x.offsets[i + 1]);
           ++j)
        for (std::size_t c = 0; c < width; ++c)
          expected[i * width + c] += x.values[j] * table[static_cast<std::size_t>(x.columns[j]) * width + c];
    sparse_product(host_stream{}, x.view(), table, width, y.data());
    EXPECT_EQ(y, expected) << width;
  }
}

#ifdef __FMA__
TEST(SparseProduct, RoundsEachTermOnce) {
  constexpr std::size_t columns = 20;
  owned_rows x = random_rows(6, columns, 0);
  for (float& v : x.values) v /= 3;
  for (const std::size_t width : {1U, 2U, 3U, 4U, 8U, 9U}) {
    floats table = whole_numbers(columns * width);
    for (float& f : table) f /= 7;
    floats y(6 * width), expected(6 * width);
    for (std::size_t i = 0; i < 6; ++i)
      for (auto j = static_cast<std::size_t>(x.offsets[i]); j < static_cast<std::size_t>(x.offsets[i + 1]);
           ++j)
        for (std::size_t c = 0; c < width; ++c) {
          float& sum = expected[i * width + c];
          sum = std::fma(x.values[j], table[static_cast<std::size_t>(x.columns[j]) * width + c], sum);
        }
    sparse_product(host_stream{}, x.view(), table, width, y.data());
    EXPECT_EQ(y, expected) << width;
  }
}
#endif

TEST(SparseProduct, GivesEachEntryItsShareOfTheGradient) {
  const owned_rows x{{4, 0, 4, -1}, {0, 2, 2, 3}, {2, -1, 3, 0}};
  const floats dy{1, 2, 10, 20, 5, 7};
  floats rows(8, 9);
  sparse_product_gradient(host_stream{}, x.view(), dy.data(), 2, rows.data());
  EXPECT_EQ(rows, (floats{2, 4, -1, -2, 15, 21, 9, 9}));
}

TEST(SparseProduct, RefusesAColumnThatTheTableLacks) {
  const floats table(6);
  floats y(2);
  for (const std::int32_t column : {3, -1}) {
    const owned_rows x{{column}, {0, 1}, {1}};
    EXPECT_THROW(sparse_product(host_stream{}, x.view(), table, 2, y.data()), std::out_of_range);
  }
}

TEST(SparseProduct, RefusesOffsetsBehindTheEntries) {
  const floats table(6);
  floats y(2);
  for (const indices& offsets : {indices{0, 2}, indices{1, 0}, indices{-1, 1}}) {
    const owned_rows x{{0}, offsets, {1}};
    EXPECT_THROW(sparse_product(host_stream{}, x.view(), table, 2, y.data()), std::out_of_range);
    EXPECT_THROW(sparse_product_gradient(host_stream{}, x.view(), y.data(), 2, y.data()), std::out_of_range);
  }
}

TEST(SparseProduct, HasNoCudaVersion) {
  const owned_rows x{{0}, {0, 1}, {1}};
  const floats table(2);
  floats y(2);
  EXPECT_THROW(sparse_product(cuda_stream{}, x.view(), table, 2, y.data()), device_error);
}

} // namespace
} // namespace mailgrad
