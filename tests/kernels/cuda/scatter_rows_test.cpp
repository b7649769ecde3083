#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/gather.hpp>

#include <gmock/gmock.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using testing::drawn_integers;
using testing::expect_close;
using testing::normal_values;
using testing::shifted_array;

class GpuScatter : public testing::gpu_test {
protected:
  std::vector<float> on_gpu(const std::vector<std::int32_t>& rows, const std::vector<float>& values,
                            std::size_t width, std::size_t height, std::size_t shift = 0,
                            std::uint32_t operation = 0) {
    const auto numbers = array(rows);
    const auto scratch = unwritten<float>(scatter_scratch_bytes(device_kind::cuda, rows.size()) / 4);
    const shifted_array<float> from(queue(), values, shift), to(queue(), height * width, shift);
    cuda_stream s = on_gpu_stream();
    s.operation = operation;
    scatter_rows(s, numbers.span(), from.data(), width, {to.data(), height * width}, scratch.data());
    return to.read();
  }
  cuda_stream on_gpu_stream() { return std::get<cuda_stream>(gpu()); }

  static std::vector<float> on_host(const std::vector<std::int32_t>& rows, const std::vector<float>& values,
                                    std::size_t width, std::size_t height) {
    std::vector<float> table(height * width);
    scatter_rows(host_stream{}, rows, values.data(), width, table);
    return table;
  }
};

TEST_F(GpuScatter, AddsShortListsAsTheHostDoes) {
  for (const std::size_t width : {1U, 3U, 4U, 64U, 132U, 300U})
    for (const std::size_t n : {0U, 1U, 2U, 33U, 64U, 65U, 500U})
      for (const std::size_t shift : {0U, 1U}) {
        SCOPED_TRACE(std::to_string(n) + " rows of " + std::to_string(width) + " from " +
                     std::to_string(shift));
        const std::vector<std::int32_t> rows = drawn_integers(n, 36, 3);
        const std::vector<float> values = normal_values(n * width, 4);
        EXPECT_EQ(on_gpu(rows, values, width, 37, shift), on_host(rows, values, width, 37));
      }
}

TEST_F(GpuScatter, SharesLongListsAmongWarps) {
  constexpr std::size_t width = 12, height = 5;
  for (const std::size_t n : {165U, 2048U, 2049U, 5000U}) {
    std::vector<std::int32_t> rows = drawn_integers(n, 3, 3); // none of row 4
    for (std::size_t i = 0; i < n; i += 2) rows[i] = 2;
    const std::vector<float> values = normal_values(n * width, 4);
    const std::vector<float> found = on_gpu(rows, values, width, height);
    expect_close(found, on_host(rows, values, width, height), std::sqrt(static_cast<float>(n)));
    EXPECT_EQ(on_gpu(rows, values, width, height), found) << "another order of the sum";
  }
}

TEST_F(GpuScatter, HasAWarpForEachRowOfALargeTable) {
  constexpr std::size_t width = 5, height = 3001, n = 4500;
  std::vector<std::int32_t> rows = drawn_integers(n, height - 1, 3);
  for (std::size_t i = 0; i < n; i += 3) rows[i] = 2993 + static_cast<std::int32_t>(i % 4); // of one block
  const std::vector<float> values = normal_values(n * width, 4);
  expect_close(on_gpu(rows, values, width, height), on_host(rows, values, width, height), 20);
}

TEST_F(GpuScatter, ANumberBelow0EndsTheList) {
  for (const std::size_t n : {7U, 3000U}) {
    std::vector<std::int32_t> rows = drawn_integers(n, 2, 3);
    rows[5] = -1;
    rows[6] = 99; // behind the end
    const std::vector<float> values = normal_values(n * 4, 4);
    EXPECT_EQ(on_gpu(rows, values, 4, 3), on_host(rows, values, 4, 3));
    EXPECT_FALSE(queue().take_fault());
    rows[0] = std::numeric_limits<std::int32_t>::min();
    EXPECT_THAT(on_gpu(rows, values, 4, 3), ::testing::Each(0.0F));
  }
}

TEST_F(GpuScatter, NotesTheFirstRowThatTheTableLacks) {
  std::vector<std::int32_t> rows = drawn_integers(2500, 2, 3);
  rows[2400] = 3;
  rows[71] = std::numeric_limits<std::int32_t>::max();
  const std::vector<float> values = normal_values(2500 * 4, 4);
  const std::vector<float> found = on_gpu(rows, values, 4, 3, 0, 6);
  const auto fault = queue().take_fault();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), cuda::fault_kind::row);
  EXPECT_EQ(fault->operation(), 6U);
  EXPECT_EQ(fault->element(), 71U);
  EXPECT_EQ(fault->found(), rows[71]);
  EXPECT_EQ(fault->limit(), 3U);
  for (const float x : found) EXPECT_TRUE(std::isfinite(x));
}

} // namespace
} // namespace mailgrad
