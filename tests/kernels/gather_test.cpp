#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <random>
#include <span>
#include <stdexcept>

namespace mailgrad {
namespace {

using testing::expect_refused;
using floats = std::vector<float>;
using indices = std::vector<std::int32_t>;

constexpr std::size_t half_of_all = (~std::size_t{0} >> 1) + 1; // twice as much wraps

TEST(Gather, CopiesTheRowsInTheOrderAsked) {
  const floats table{1, 2, 3, 4, 5, 6};
  floats result(8);
  gather(host_stream{}, table, 2, indices{2, 0, 0, 1}, result.data());
  EXPECT_EQ(result, (floats{5, 6, 1, 2, 1, 2, 3, 4}));
}

TEST(Gather, NamesTheRowAndTheTable) {
  const floats table(6);
  floats result(2);
  const indices seventh{7};
  EXPECT_THAT([&] { gather(host_stream{}, table, 2, seventh, result.data()); },
              testing::ThrowsMessage<std::out_of_range>("row 7 of a table of 3 rows"));
}

TEST(Gather, HasNoCudaVersion) {
  const floats table(2);
  floats result(2);
  EXPECT_THROW(gather(cuda_stream{}, table, 2, indices{0}, result.data()), device_error);
}

TEST(Refusals, OfRowsThatATableLacks) {
  floats table(6), buffer(12);
  const indices behind{0, 2}, negative{-1}, first{0}, third{2};
  const auto run = [&](const indices& rows, std::size_t width) {
    gather(host_stream{}, table, width, rows, buffer.data());
  };
  expect_refused<std::out_of_range>("row 2 of a table of 2 rows", [&] { run(behind, 3); });
  expect_refused<std::out_of_range>("row -1", [&] { run(negative, 3); });
  expect_refused("gather: 6 against 4", [&] { run(first, 4); });
  expect_refused("gather: 6 against 7", [&] { run(first, 7); });
  expect_refused("more elements than memory can hold", [&] { run(third, half_of_all); });
  expect_refused("gather: 6 against 0", [&] { run(first, 0); });
  const auto scatter = [&](const indices& rows, std::size_t width) {
    scatter_rows(host_stream{}, rows, buffer.data(), width, table);
  };
  expect_refused<std::out_of_range>("row 2 of a table of 2 rows", [&] { scatter(behind, 3); });
  expect_refused("scatter_rows: 6 against 4", [&] { scatter(first, 4); });
  scatter_rows(host_stream{}, indices{-1, 7}, buffer.data(), 3, table); // the list ends before that row
}

TEST(Refusals, OfRowsThatSeveralTablesLack) {
  const floats values(6);
  const row_table tables[]{{values.data(), 2}, {values.data(), 1}};
  floats buffer(12);
  indices number(4);
  const table_gradient part{number.data(), buffer.data()}, parts[]{part, part};
  const indices both{0, 1}, three{0, 0, 1}, first{0};
  const auto run = [&](std::span<const row_table> from, const indices& rows) {
    gather_tables(host_stream{}, from, 3, rows, buffer.data());
  };
  expect_refused("row 1 of a table of 1 rows", [&] { run(tables, both); });
  expect_refused("gather_tables: 3 against 2", [&] { run(tables, three); });
  expect_refused("gather_tables: 1 against 0", [&] { run({}, first); });
  const auto split = [&](std::span<const table_gradient> into) {
    gather_tables_gradient(host_stream{}, first, buffer.data(), 3, into);
  };
  expect_refused("gather_tables_gradient: 1 against 2", [&] { split(parts); });
  expect_refused("gather_tables_gradient: 1 against 0", [&] { split({}); });
}

TEST(ScatterRows, AddsRowsThatComeTwice) {
  floats table(6, 9);
  const floats values{1, 2, 3, 4, 5, 6};
  scatter_rows(host_stream{}, indices{2, 0, 2}, values.data(), 2, table);
  EXPECT_EQ(table, (floats{3, 4, 0, 0, 6, 8}));
}

TEST(ScatterRows, StopsAtANegativeRow) {
  floats table(4, 9);
  const floats values{1, 2, 3, 4, 5, 6};
  scatter_rows(host_stream{}, indices{1, -1, 0}, values.data(), 2, table);
  EXPECT_EQ(table, (floats{0, 0, 1, 2}));
}

TEST(ScatterRows, WithoutRowsGivesZeros) {
  floats table(4, 9);
  scatter_rows(host_stream{}, {}, nullptr, 2, table);
  EXPECT_EQ(table, floats(4));
}

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

/// What `add` makes of each sum, value and element of the table that meet.
template <class Add>
void expect_product(const owned_rows& x, const floats& table, std::size_t width, Add add) {
  const std::size_t rows = x.offsets.size() - 1;
  floats y(rows * width, 9), expected(rows * width);
  for (std::size_t i = 0; i < rows; ++i)
    for (auto j = static_cast<std::size_t>(x.offsets[i]); j < static_cast<std::size_t>(x.offsets[i + 1]); ++j)
      for (std::size_t c = 0; c < width; ++c) {
        float& sum = expected[i * width + c];
        sum = add(sum, x.values[j], table[static_cast<std::size_t>(x.columns[j]) * width + c]);
      }
  sparse_product(host_stream{}, x.view(), table, width, y.data());
  EXPECT_EQ(y, expected) << width;
}

TEST(SparseProduct, AgreesWithAPlainLoopForAnyWidth) {
  const owned_rows x = random_rows(6, 20, 4);
  for (const std::size_t width : {1U, 2U, 3U, 4U, 8U, 9U, 26U})
    expect_product(x, whole_numbers(20 * width), width,
                   [](float sum, float v, float w) { return sum + v * w; });
}

#ifdef __FMA__
TEST(SparseProduct, RoundsEachTermOnce) {
  owned_rows x = random_rows(6, 20, 0);
  for (float& v : x.values) v /= 3;
  for (const std::size_t width : {1U, 2U, 3U, 4U, 8U, 9U}) {
    floats table = whole_numbers(20 * width);
    for (float& f : table) f /= 7;
    expect_product(x, table, width, [](float sum, float v, float w) { return std::fma(v, w, sum); });
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

TEST(SparseProduct, HasNoCudaVersion) {
  const owned_rows x{{0}, {0, 1}, {1}};
  const floats table(2);
  floats y(2);
  EXPECT_THROW(sparse_product(cuda_stream{}, x.view(), table, 2, y.data()), device_error);
}

TEST(Refusals, OfSparseRowsThatPointNowhere) {
  const floats table(6), values{1, 1};
  floats y(12);
  const auto run = [&](const indices& columns, const indices& offsets, std::size_t width) {
    sparse_product(host_stream{}, {columns, values.data(), offsets}, table, width, y.data());
  };
  struct rows_case {
    const char* words;
    indices columns, offsets;
  };
  const rows_case all[] = {{"entries 0 to 2 of 1", {0}, {0, 2}},
                           {"entries -1 to 1", {0}, {-1, 1}},
                           {"entries 1 to 0", {0}, {1, 0}},
                           {"entries 2 to 1", {0, 0}, {2, 1}},
                           {"column 6", {6}, {0, 1}},
                           {"column -1", {-1}, {0, 1}}};
  const indices one{0}, last{2}, once{0, 1}, none;
  for (const std::size_t width : {1U, 2U, 3U}) {
    expect_refused("no offsets", [&] { run(one, none, width); });
    for (const rows_case& c : all)
      expect_refused<std::out_of_range>(c.words, [&] { run(c.columns, c.offsets, width); });
  }
  expect_refused<std::out_of_range>("a width beyond the table", "column 0", [&] { run(one, once, 7); });
  expect_refused<std::out_of_range>("a width that wraps", "column 2", [&] { run(last, once, half_of_all); });
  const auto differentiate = [&](const indices& offsets) {
    sparse_product_gradient(host_stream{}, {one, values.data(), offsets}, table.data(), 1, y.data());
  };
  expect_refused("no offsets", [&] { differentiate(none); });
  for (const auto& c : std::span(all).first(3))
    expect_refused<std::out_of_range>(c.words, [&] { differentiate(c.offsets); });
}

} // namespace
} // namespace mailgrad
