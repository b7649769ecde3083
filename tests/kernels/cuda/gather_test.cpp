#include "../../support/gpu_test.hpp"

#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <deque>
#include <stdexcept>

namespace mailgrad {
namespace {

using testing::drawn_integers, testing::expect_close, testing::expect_same, testing::normal_values,
    testing::throws, testing::twin;

using floats = std::vector<float>;
using integers = std::vector<std::int32_t>;

constexpr std::int32_t least = std::numeric_limits<std::int32_t>::min();

std::string words_of_case(std::size_t rows, std::size_t width, std::size_t shift) {
  return std::to_string(rows) + " rows of " + std::to_string(width) + " from " + std::to_string(shift);
}

/// Kernels that read or write rows of tables.
class gpu_tables_test : public testing::gpu_test {
protected:
  /// Expects the fault of a row, in operation 6.
  void expect_fault(std::size_t element, std::int32_t found, std::size_t limit) {
    const auto fault = queue().take_fault();
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->kind(), cuda::fault_kind::row);
    EXPECT_EQ(fault->operation(), 6U);
    EXPECT_EQ(fault->element(), element);
    EXPECT_EQ(fault->found(), found);
    EXPECT_EQ(fault->limit(), limit);
  }
};

class GpuGather : public gpu_tables_test {};

TEST_F(GpuGather, CopiesTheRowsOfTheHost) {
  constexpr std::size_t height = 37;
  std::minstd_rand random(1);
  for (const std::size_t width : {1U, 3U, 4U, 64U, 1000U})
    for (const std::size_t asked : {0U, 1U, 7U, 1500U})
      for (const std::size_t shift : {0U, 1U}) {
        SCOPED_TRACE(words_of_case(asked, width, shift));
        integers numbers(asked);
        for (std::int32_t& r : numbers) r = static_cast<std::int32_t>(random() % height);
        const auto table = given(normal_values(height * width, 2), shift);
        const auto rows = given(numbers);
        auto y = wanted(asked * width, shift);
        on_both([&](const stream& s, auto at) {
          gather(s, {at(table), height * width}, width, {at(rows), asked}, at(y));
        });
        expect_same(y);
      }
}

TEST_F(GpuGather, TakesPacksOnlyWhereBothSidesAreAligned) {
  const auto rows = given(integers{4, 0});
  for (const std::size_t left : {0U, 1U}) {
    const auto table = given(normal_values(40, 2), left);
    auto y = wanted(16, 1 - left);
    on_both([&](const stream& s, auto at) { gather(s, {at(table), 40}, 8, {at(rows), 2}, at(y)); });
    expect_same(y);
  }
}

TEST_F(GpuGather, NotesTheFirstRowThatTheTableLacks) {
  constexpr std::size_t width = 5, height = 3;
  const auto table = array(normal_values(width * height, 1));
  for (const std::int32_t bad : {3, -1, least}) {
    integers asked(2000, 99);
    asked[0] = asked[1] = 2;
    asked[2] = bad;
    const auto rows = array(asked);
    const auto result = unwritten<float>(asked.size() * width);
    gather(gpu_for_operation(6), table.span(), width, rows.span(), result.data());
    expect_fault(2, bad, height);
    const floats found = result.read();
    EXPECT_THAT(floats(found.begin() + 2 * width, found.end()), ::testing::Each(0.0F));
  }
}

TEST_F(GpuGather, RefusesATableThatIsNotMadeOfWholeRows) {
  const auto table = array(normal_values(10, 1)), result = unwritten<float>(3);
  const auto rows = array(integers{0});
  EXPECT_THROW(gather(gpu(), table.span(), 3, rows.span(), result.data()), shape_error);
}

/// Samples, tables, width, and how far the arrays are shifted.
class GpuTables
    : public gpu_tables_test,
      public ::testing::WithParamInterface<std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>> {
protected:
  static constexpr std::size_t height = 9;
  std::size_t samples = std::get<0>(GetParam()), tables = std::get<1>(GetParam()),
              width = std::get<2>(GetParam()), shift = std::get<3>(GetParam()), n = samples * tables;
  integers numbers = drawn_integers(n, height - 1, 1);
};

TEST_P(GpuTables, CopyTheRowsOfTheHost) {
  const auto rows = given(numbers);
  std::deque<twin<float>> values;
  for (std::size_t j = 0; j < tables; ++j) values.push_back(given(normal_values(height * width, j), shift));
  for (const stream& s : {gpu(), gpu_with_few_in_32_bits(tables * width * 2)}) { // the latter in parts
    auto y = wanted(n * width, shift);
    on_host_and(s, [&](const stream& on, auto at) {
      std::vector<row_table> from;
      for (const auto& v : values) from.push_back({at(v), height});
      gather_tables(on, from, width, {at(rows), n}, at(y));
    });
    expect_same(y);
  }
  EXPECT_FALSE(queue().take_fault());
}

TEST_P(GpuTables, SplitTheGradientAsTheHostDoes) {
  const auto rows = given(numbers);
  const auto gradient = given(normal_values(n * width, 2), shift);
  std::deque<twin<std::int32_t>> found_rows;
  std::deque<twin<float>> found;
  for (std::size_t j = 0; j < tables; ++j) {
    found_rows.push_back(wanted<std::int32_t>(samples));
    found.push_back(wanted(samples * width, shift));
  }
  for (const stream& s : {gpu(), gpu_with_few_in_32_bits(tables * width * 2)}) {
    on_host_and(s, [&](const stream& on, auto at) {
      std::vector<table_gradient> parts;
      for (std::size_t j = 0; j < tables; ++j) parts.push_back({at(found_rows[j]), at(found[j])});
      gather_tables_gradient(on, {at(rows), n}, at(gradient), width, parts);
    });
    for (const auto& x : found_rows) expect_same(x);
    for (const auto& x : found) expect_same(x);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuTables,
                         ::testing::Combine(::testing::Values(0U, 1U, 37U), ::testing::Values(1U, 3U, 26U),
                                            ::testing::Values(1U, 5U, 16U), ::testing::Values(0U, 1U)));
INSTANTIATE_TEST_SUITE_P(MoreThanALaunchTakes, GpuTables,
                         ::testing::Combine(::testing::Values(3U), ::testing::Values(64U, 65U, 130U),
                                            ::testing::Values(4U), ::testing::Values(0U)));

using GpuTablesEdges = gpu_tables_test;

TEST_F(GpuTablesEdges, ARowThatItsTableLacksIsNotedAndZeroed) {
  const auto first = array(normal_values(12, 1)), second = array(normal_values(20, 2));
  const std::vector<row_table> tables{{first.data(), 3}, {second.data(), 5}};
  const auto rows = array(integers{2, 4, 3, 4, 0, 0});
  const auto result = unwritten<float>(24);
  gather_tables(gpu_for_operation(6), tables, 4, rows.span(), result.data());
  expect_fault(2, 3, 3);
  const floats found = result.read();
  EXPECT_EQ(floats(found.begin() + 8, found.begin() + 12), floats(4));
  EXPECT_EQ(found[12], second.read()[16]);
}

TEST_F(GpuTablesEdges, TheFirstOfManyFaultsIsNotedWithTheSizeOfItsTable) {
  const auto first = array(normal_values(12, 1)), second = array(normal_values(20, 2));
  const std::vector<row_table> tables{{first.data(), 3}, {second.data(), 5}};
  constexpr std::size_t samples = 2000; // of several blocks
  for (const std::size_t correct : {0U, 1U, 2U, 3U}) {
    integers wrong(2 * samples, 9);
    std::fill_n(wrong.begin(), correct, 1);
    const auto rows = array(wrong);
    const auto result = unwritten<float>(wrong.size() * 4);
    gather_tables(gpu_for_operation(6), tables, 4, rows.span(), result.data());
    expect_fault(correct, 9, tables[correct % 2].height);
  }
}

TEST_F(GpuTablesEdges, RefuseHalfASample) {
  const auto rows = array(integers{0});
  EXPECT_THROW(gather_tables(gpu(), std::vector<row_table>(2), 4, rows.span(), nullptr), shape_error);
}

class GpuScatter : public gpu_tables_test {
protected:
  /// The table once more on each.
  twin<float> scattered(const integers& numbers, const floats& added, std::size_t width, std::size_t height,
                        std::size_t shift = 0) {
    const auto rows = given(numbers);
    const auto values = given(added, shift);
    const auto scratch = unwritten<float>(scatter_scratch_bytes(device_kind::cuda, numbers.size()) / 4);
    auto table = wanted(height * width, shift);
    scatter_rows(host_stream{}, numbers, added.data(), width, table.here);
    scatter_rows(gpu_for_operation(6), {rows.there.data(), numbers.size()}, values.there.data(), width,
                 {table.there.data(), height * width}, scratch.data());
    queue().finish(); // before the operands go
    return table;
  }
};

TEST_F(GpuScatter, AddsShortListsAsTheHostDoes) {
  for (const std::size_t width : {1U, 3U, 4U, 64U, 132U, 300U})
    for (const std::size_t n : {0U, 1U, 2U, 33U, 64U, 65U, 500U})
      for (const std::size_t shift : {0U, 1U}) {
        SCOPED_TRACE(words_of_case(n, width, shift));
        expect_same(scattered(drawn_integers(n, 36, 3), normal_values(n * width, 4), width, 37, shift));
      }
}

TEST_F(GpuScatter, SharesLongListsAmongWarps) {
  constexpr std::size_t width = 12, height = 5;
  for (const std::size_t n : {165U, 2048U, 2049U, 5000U}) {
    integers rows = drawn_integers(n, 3, 3); // none of row 4
    for (std::size_t i = 0; i < n; i += 2) rows[i] = 2;
    const floats values = normal_values(n * width, 4);
    const auto first = scattered(rows, values, width, height);
    expect_close(first, std::sqrt(static_cast<float>(n)));
    EXPECT_EQ(scattered(rows, values, width, height).there.read(), first.there.read())
        << "another order of the sum";
  }
}

TEST_F(GpuScatter, HasAWarpForEachRowOfALargeTable) {
  constexpr std::size_t width = 5, height = 3001, n = 4500;
  integers rows = drawn_integers(n, height - 1, 3);
  for (std::size_t i = 0; i < n; i += 3) rows[i] = 2993 + static_cast<std::int32_t>(i % 4); // of one block
  expect_close(scattered(rows, normal_values(n * width, 4), width, height), 20);
}

TEST_F(GpuScatter, ANumberBelow0EndsTheList) {
  for (const std::size_t n : {7U, 3000U}) {
    integers rows = drawn_integers(n, 2, 3);
    rows[5] = -1;
    rows[6] = 99; // behind the end
    const floats values = normal_values(n * 4, 4);
    expect_same(scattered(rows, values, 4, 3));
    EXPECT_FALSE(queue().take_fault());
    rows[0] = least;
    EXPECT_THAT(scattered(rows, values, 4, 3).there.read(), ::testing::Each(0.0F));
  }
}

TEST_F(GpuScatter, NotesTheFirstRowThatTheTableLacks) {
  integers numbers = drawn_integers(2500, 2, 3);
  numbers[2400] = 3;
  numbers[71] = std::numeric_limits<std::int32_t>::max();
  const auto rows = array(numbers);
  const auto values = array(normal_values(2500 * 4, 4)), table = unwritten<float>(12),
             scratch = unwritten<float>(scatter_scratch_bytes(device_kind::cuda, 2500) / 4);
  scatter_rows(gpu_for_operation(6), rows.span(), values.data(), 4, table.span(), scratch.data());
  expect_fault(71, numbers[71], 3);
  for (const float x : table.read()) EXPECT_TRUE(std::isfinite(x));
}

/// Compressed rows.
struct drawn_rows {
  integers columns, offsets{0};
  floats values;
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
  struct rows_of_both {
    twin<std::int32_t> columns, offsets;
    twin<float> values;

    template <class At>
    compressed_rows at(const At& where) const {
      return {{where(columns), columns.here.size()}, where(values), {where(offsets), offsets.here.size()}};
    }
  };
  rows_of_both given_rows(const drawn_rows& x) {
    return {given(x.columns), given(x.offsets), given(x.values)};
  }
};

TEST_F(GpuSparse, ProductsEqualThoseOfTheHost) {
  for (const std::size_t rows : {0U, 1U, 2U, 60U})
    for (const std::size_t width : {1U, 2U, 3U, 10U, 32U, 33U, 100U}) {
      SCOPED_TRACE(words_of_case(rows, width, 0));
      const rows_of_both x = given_rows(draw_rows(rows, 18));
      const auto table = given(normal_values(19 * width, 3)), dy = given(normal_values(rows * width, 4));
      auto y = wanted(rows * width), gradient = given(floats(x.columns.here.size() * width, 7));
      on_both([&](const stream& s, auto at) {
        sparse_product(s, x.at(at), {at(table), 19 * width}, width, at(y));
        sparse_product_gradient(s, x.at(at), at(dy), width, at(gradient));
      });
      expect_close(y, 9);
      expect_same(gradient);
      EXPECT_FALSE(queue().take_fault());
    }
}

TEST_F(GpuSparse, ManyRowsHaveSeveralTurnsOfABlock) {
  const rows_of_both x = given_rows(draw_rows(18000, 4));
  const auto table = given(normal_values(5, 3));
  auto y = wanted(18000);
  on_both([&](const stream& s, auto at) { sparse_product(s, x.at(at), {at(table), 5}, 1, at(y)); });
  expect_close(y, 9);
}

TEST_F(GpuSparse, WhatPointsNowhereIsNotedInTheWordsOfTheHost) {
  const auto table = array(normal_values(12, 3)), y = unwritten<float>(8);
  const auto running = [&](integers columns, integers offsets) {
    return [&, columns = std::move(columns), offsets = std::move(offsets)] {
      const rows_of_both x = given_rows({columns, offsets, floats(columns.size(), 1)});
      sparse_product(gpu(), x.at([](auto& t) { return t.there.data(); }), table.span(), 4, y.data());
      if (const auto fault = queue().take_fault()) cuda::raise(*fault);
    };
  };
  EXPECT_THAT(running({0, 3}, {0, 1, 2}), throws<std::out_of_range>("column 3 of rows of 3 columns"));
  EXPECT_THAT(running({-1, 3}, {0, 1, 2}), throws<std::out_of_range>("column -1 of rows of 3 columns"));
  EXPECT_THAT(running({0, 1}, {0, 1, 3}), throws<std::out_of_range>("row 1 is entries from or to 3 of 2"));
  EXPECT_THAT(running({0, 1}, {-2, 1, 2}), throws<std::out_of_range>("row 0 is entries from or to -2 of 2"));
  EXPECT_THAT(running({0, 1}, {0, 2, 1}), throws<std::out_of_range>("row 1 is entries from or to 2 of 2"));
}

TEST_F(GpuSparse, NeedsOffsets) {
  const floats nothing;
  EXPECT_THROW(sparse_product(gpu(), {{}, nullptr, {}}, nothing, 1, nullptr), shape_error);
  EXPECT_THROW(sparse_product_gradient(gpu(), {{}, nullptr, {}}, nullptr, 1, nullptr), shape_error);
}

} // namespace
} // namespace mailgrad
