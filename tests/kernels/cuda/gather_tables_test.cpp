#include "../../support/gpu_test.hpp"
#include "../../support/gpu_values.hpp"

#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/tensor/error.hpp>

#include <deque>
#include <string>
#include <vector>

namespace mailgrad {
namespace {

using testing::drawn_integers;
using testing::normal_values;
using testing::shifted_array;

/// Samples, tables, width, and how far the arrays are shifted.
class GpuTables
    : public testing::gpu_test,
      public ::testing::WithParamInterface<std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>> {
protected:
  static constexpr std::size_t height = 9;
  std::size_t samples = std::get<0>(GetParam()), tables = std::get<1>(GetParam()),
              width = std::get<2>(GetParam()), shift = std::get<3>(GetParam()), n = samples * tables;
  std::vector<std::int32_t> rows = drawn_integers(n, height - 1, 1);
  std::vector<float> gradient = normal_values(n * width, 2);
};

TEST_P(GpuTables, CopyTheRowsOfTheHost) {
  std::vector<std::vector<float>> values;
  std::deque<shifted_array<float>> there;
  std::vector<row_table> on_host, on_tables;
  for (std::size_t j = 0; j < tables; ++j) values.push_back(normal_values(height * width, j));
  for (std::size_t j = 0; j < tables; ++j) {
    on_host.push_back({values[j].data(), height});
    there.emplace_back(queue(), values[j], shift);
    on_tables.push_back({there.back().data(), height});
  }
  std::vector<float> expected(n * width);
  gather_tables(host_stream{}, on_host, width, rows, expected.data());
  const auto numbers = array(rows);
  const shifted_array<float> result(queue(), n * width, shift);
  gather_tables(gpu(), on_tables, width, numbers.span(), result.data());
  EXPECT_EQ(result.read(), expected);
  EXPECT_FALSE(queue().take_fault());
  const shifted_array<float> in_parts(queue(), n * width, shift);
  gather_tables(gpu_with_few_in_32_bits(tables * width * 2), on_tables, width, numbers.span(),
                in_parts.data());
  EXPECT_EQ(in_parts.read(), expected);
}

TEST_P(GpuTables, SplitTheGradientAsTheHostDoes) {
  std::vector<std::vector<std::int32_t>> expected_rows(tables, std::vector<std::int32_t>(samples));
  std::vector<std::vector<float>> expected(tables, std::vector<float>(samples * width));
  std::deque<testing::gpu_array<std::int32_t>> found_rows;
  std::deque<shifted_array<float>> found;
  std::vector<table_gradient> on_host, on_parts;
  for (std::size_t j = 0; j < tables; ++j) {
    on_host.push_back({expected_rows[j].data(), expected[j].data()});
    found_rows.emplace_back(queue(), samples);
    found.emplace_back(queue(), samples * width, shift);
    on_parts.push_back({found_rows.back().data(), found.back().data()});
  }
  gather_tables_gradient(host_stream{}, rows, gradient.data(), width, on_host);
  const auto numbers = array(rows);
  const shifted_array<float> from(queue(), gradient, shift);
  for (const stream& s : {gpu(), gpu_with_few_in_32_bits(tables * width * 2)}) {
    gather_tables_gradient(s, numbers.span(), from.data(), width, on_parts);
    for (std::size_t j = 0; j < tables; ++j) {
      EXPECT_EQ(found_rows[j].read(), expected_rows[j]);
      EXPECT_EQ(found[j].read(), expected[j]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuTables,
                         ::testing::Combine(::testing::Values(0U, 1U, 37U), ::testing::Values(1U, 3U, 26U),
                                            ::testing::Values(1U, 5U, 16U), ::testing::Values(0U, 1U)));
INSTANTIATE_TEST_SUITE_P(MoreThanALaunchTakes, GpuTables,
                         ::testing::Combine(::testing::Values(3U), ::testing::Values(64U, 65U, 130U),
                                            ::testing::Values(4U), ::testing::Values(0U)));

using GpuTablesEdges = testing::gpu_test;

TEST_F(GpuTablesEdges, ARowThatItsTableLacksIsNotedAndZeroed) {
  const auto first = array(normal_values(12, 1)), second = array(normal_values(20, 2));
  const std::vector<row_table> tables{{first.data(), 3}, {second.data(), 5}};
  const auto rows = array(std::vector<std::int32_t>{2, 4, 3, 4, 0, 0});
  const auto result = unwritten<float>(24);
  cuda_stream s = on_gpu();
  s.operation = 5;
  gather_tables(s, tables, 4, rows.span(), result.data());
  const auto fault = queue().take_fault();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), cuda::fault_kind::row);
  EXPECT_EQ(fault->operation(), 5U);
  EXPECT_EQ(fault->element(), 2U);
  EXPECT_EQ(fault->found(), 3);
  EXPECT_EQ(fault->limit(), 3U);
  const std::vector<float> found = result.read();
  EXPECT_EQ(std::vector(found.begin() + 8, found.begin() + 12), std::vector<float>(4));
  EXPECT_EQ(found[12], second.read()[16]);
}

TEST_F(GpuTablesEdges, TheFirstOfManyFaultsIsNotedWithTheSizeOfItsTable) {
  const auto first = array(normal_values(12, 1)), second = array(normal_values(20, 2));
  const std::vector<row_table> tables{{first.data(), 3}, {second.data(), 5}};
  constexpr std::size_t samples = 2000; // of several blocks
  for (const std::size_t correct : {0U, 1U, 2U, 3U}) {
    std::vector<std::int32_t> wrong(2 * samples, 9);
    std::fill_n(wrong.begin(), correct, 1);
    const auto rows = array(wrong);
    const auto result = unwritten<float>(wrong.size() * 4);
    gather_tables(on_gpu(), tables, 4, rows.span(), result.data());
    const auto fault = queue().take_fault();
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->element(), correct);
    EXPECT_EQ(fault->limit(), tables[correct % 2].height);
  }
}

TEST_F(GpuTablesEdges, RefuseHalfASample) {
  const auto rows = array(std::vector<std::int32_t>{0});
  const std::vector<row_table> tables(2);
  EXPECT_THROW(gather_tables(gpu(), tables, 4, rows.span(), nullptr), shape_error);
}

} // namespace
} // namespace mailgrad
