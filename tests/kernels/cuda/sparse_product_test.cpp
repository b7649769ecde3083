#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/tensor/error.hpp>

#include <gmock/gmock.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using testing::drawn_integers;
using testing::expect_close;
using testing::gpu_array;
using ::testing::HasSubstr;
using testing::normal_values;
using ::testing::ThrowsMessage;

/// Compressed rows on the host.
struct drawn_rows {
  std::vector<std::int32_t> columns, offsets{0};
  std::vector<float> values;

  compressed_rows on_host() const { return {columns, values.data(), offsets}; }
};

/// Rows with no entry, one, and many; entries behind the last row are not read.
drawn_rows draw_rows(std::size_t rows, std::int32_t last_column) {
  drawn_rows made;
  std::int32_t entries = 0;
  for (std::size_t i = 0; i < rows; ++i)
    made.offsets.push_back(entries += static_cast<std::int32_t>(i % 4 == 0 ? 0 : i % 5 == 0 ? 71 : i % 7));
  made.columns = drawn_integers(static_cast<std::size_t>(entries), last_column, 1);
  made.columns.insert(made.columns.end(), 3, -1);
  made.values = normal_values(made.columns.size(), 2);
  return made;
}

class GpuSparse : public testing::gpu_test {
protected:
  /// The same rows on the GPU.
  struct rows_there {
    gpu_array<std::int32_t> columns, offsets;
    gpu_array<float> values;

    compressed_rows get() const { return {columns.span(), values.data(), offsets.span()}; }
  };
  rows_there on_gpu_of(const drawn_rows& x) { return {array(x.columns), array(x.offsets), array(x.values)}; }
};

TEST_F(GpuSparse, ProductsEqualThoseOfTheHost) {
  for (const std::size_t rows : {0U, 1U, 2U, 60U})
    for (const std::size_t width : {1U, 2U, 3U, 10U, 32U, 33U, 100U}) {
      SCOPED_TRACE(std::to_string(rows) + " rows, width " + std::to_string(width));
      const drawn_rows x = draw_rows(rows, 18);
      const std::vector<float> table = normal_values(19 * width, 3), dy = normal_values(rows * width, 4);
      std::vector<float> expected(rows * width), gradient(x.columns.size() * width, 7);
      sparse_product(host_stream{}, x.on_host(), table, width, expected.data());
      sparse_product_gradient(host_stream{}, x.on_host(), dy.data(), width, gradient.data());

      const rows_there there = on_gpu_of(x);
      const auto on_table = array(table), on_dy = array(dy), y = unwritten<float>(expected.size());
      const auto on_gradient = array(std::vector<float>(gradient.size(), 7));
      sparse_product(gpu(), there.get(), on_table.span(), width, y.data());
      sparse_product_gradient(gpu(), there.get(), on_dy.data(), width, on_gradient.data());
      expect_close(y.read(), expected, 9);
      EXPECT_EQ(on_gradient.read(), gradient);
      EXPECT_FALSE(queue().take_fault());
    }
}

TEST_F(GpuSparse, ManyRowsHaveSeveralTurnsOfABlock) {
  const drawn_rows x = draw_rows(18000, 4);
  const std::vector<float> table = normal_values(5, 3);
  std::vector<float> expected(18000);
  sparse_product(host_stream{}, x.on_host(), table, 1, expected.data());
  const rows_there there = on_gpu_of(x);
  const auto on_table = array(table), y = unwritten<float>(expected.size());
  sparse_product(gpu(), there.get(), on_table.span(), 1, y.data());
  expect_close(y.read(), expected, 9);
}

TEST_F(GpuSparse, WhatPointsNowhereIsNotedInTheWordsOfTheHost) {
  const auto table = array(normal_values(12, 3)), y = unwritten<float>(8);
  const auto run = [&](drawn_rows x) {
    x.values.assign(x.columns.size(), 1);
    const rows_there there = on_gpu_of(x);
    sparse_product(gpu(), there.get(), table.span(), 4, y.data());
    if (const auto fault = queue().take_fault()) cuda::raise(*fault);
  };
  const auto expect_fault = [&](std::vector<std::int32_t> columns, std::vector<std::int32_t> offsets,
                                const char* words) {
    drawn_rows x;
    x.columns = std::move(columns);
    x.offsets = std::move(offsets);
    EXPECT_THAT([&] { run(x); }, ThrowsMessage<std::out_of_range>(HasSubstr(words)));
  };
  expect_fault({0, 3}, {0, 1, 2}, "column 3 of rows of 3 columns");
  expect_fault({-1, 3}, {0, 1, 2}, "column -1 of rows of 3 columns");
  expect_fault({0, 1}, {0, 1, 3}, "row 1 is entries from or to 3 of 2");
  expect_fault({0, 1}, {-2, 1, 2}, "row 0 is entries from or to -2 of 2");
  expect_fault({0, 1}, {0, 2, 1}, "row 1 is entries from or to 2 of 2");
}

TEST_F(GpuSparse, NeedsOffsets) {
  const std::vector<float> nothing;
  EXPECT_THROW(sparse_product(gpu(), {{}, nullptr, {}}, nothing, 1, nullptr), shape_error);
  EXPECT_THROW(sparse_product_gradient(gpu(), {{}, nullptr, {}}, nullptr, 1, nullptr), shape_error);
}

} // namespace
} // namespace mailgrad
