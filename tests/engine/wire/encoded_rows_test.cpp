
#include <mailgrad/engine/wire/encoded_numbers.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>
#include <mailgrad/tests/engine/wire/wire_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/slices.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace mailgrad {
namespace {

using testing::drawn_numbers;
using testing::drawn_whole_numbers;
using testing::expect_refused;
using testing::formats_to_test;
using testing::lossy_formats;

using bytes = std::vector<std::byte>;
using floats = std::vector<float>;
using rows = std::vector<std::int32_t>;

constexpr table_extent encoded_table{10, 3};

bytes rows_encoded(std::string_view format, const rows& listed, const floats& values,
                   std::span<float> residual = {}) {
  const wire_format f = parse_wire_format(format);
  const gradient_rows part{0, encoded_table.width, listed, values};
  bytes to(encoded_row_bytes(f, listed_rows(part).rows.size(), encoded_table.width));
  floats scratch;
  EXPECT_TRUE(encode_rows(f, part, encoded_table, residual, scratch, to));
  return to;
}

decoded_rows decoded(std::string_view format, const bytes& from) {
  decoded_rows to;
  decode_rows(parse_wire_format(format), from, encoded_table, to);
  return to;
}

TEST(EncodedRows, KeepTheNumbersOfRowsAndWriteValuesAsTheFormatDoes) {
  std::mt19937_64 rng(1);
  const rows listed{9, 0, 4, 9};
  const floats values = drawn_numbers(12, rng);
  for (const std::string_view format : formats_to_test) {
    const wire_format f = parse_wire_format(format);
    bytes alone(encoded_bytes(f, 12));
    ASSERT_TRUE(encode_numbers(f, values, {}, alone));
    floats expected(12);
    decode_numbers(f, alone, expected);
    const decoded_rows read = decoded(format, rows_encoded(format, listed, values));
    EXPECT_EQ(read.rows, listed) << format;
    EXPECT_EQ(read.values, expected) << format;
  }
}

TEST(EncodedRows, EndBeforeTheFirstNegativeOne) {
  const decoded_rows read = decoded("float32", rows_encoded("float32", {2, -1, 99}, floats(9, 1)));
  EXPECT_EQ(read.rows, rows{2});
  EXPECT_EQ(read.values, floats(3, 1));
}

TEST(EncodedRows, MayBeNone) {
  for (const std::string_view format : formats_to_test) {
    const decoded_rows read = decoded(format, rows_encoded(format, {}, {}));
    EXPECT_TRUE(read.rows.empty() && read.values.empty()) << format;
  }
}

TEST(EncodedRows, LeaveWhatTheReceiverLacksInTheirRowsOfTheTable) {
  std::mt19937_64 rng(2);
  const rows listed{7, 2, 7, 7, 0};
  for (const std::string_view format : lossy_formats) {
    const floats values = drawn_whole_numbers(15, rng);
    const floats before = drawn_whole_numbers(30, rng);
    floats residual = before;
    const decoded_rows read = decoded(format, rows_encoded(format, listed, values, residual));
    std::vector<double> sums(before.begin(), before.end());
    for (std::size_t i = 0; i < listed.size(); ++i)
      for (std::size_t c = 0; c < 3; ++c) {
        const std::size_t at = static_cast<std::size_t>(listed[i]) * 3 + c;
        sums[at] += static_cast<double>(values[3 * i + c]) - static_cast<double>(read.values[3 * i + c]);
      }
    for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(residual[i], sums[i], 1e-4) << format;
    EXPECT_TRUE(std::equal(before.begin() + 3, before.begin() + 6, residual.begin() + 3))
        << "row 1 is not listed";
  }
}

TEST(EncodedRows, ThatAreNotFiniteLeaveTheirResidualsAsTheyWere) {
  const floats values{1, 2, std::numeric_limits<float>::infinity(), 4, 5, 6};
  const rows listed{7, 7};
  floats residual(30, 0.5F), scratch;
  for (const char* format : {"int8", "top-k:0.5", "1-bit"}) {
    const wire_format f = parse_wire_format(format);
    bytes to(encoded_row_bytes(f, 2, 3));
    EXPECT_FALSE(encode_rows(f, {0, 3, listed, values}, encoded_table, residual, scratch, to));
    EXPECT_EQ(residual, floats(30, 0.5F)) << format;
  }
}

TEST(EncodedRows, AreRefusedWhereTheTableLacksThem) {
  const wire_format f = parse_wire_format("float16");
  const floats values(6), few(5);
  const rows inside{0, 9}, behind{0, 10};
  floats residual(30), other(29), scratch;
  bytes right(encoded_row_bytes(f, 2, 3)), small(8);
  const auto encode = [&](const rows& listed, const floats& v, std::size_t width, floats& r, bytes& to) {
    return [&, width] {
      static_cast<void>(encode_rows(f, {0, width, listed, v}, encoded_table, r, scratch, to));
    };
  };
  expect_refused({
      {"a row behind the table", encode(behind, values, 3, residual, right), "row 10 of a table of 10 rows"},
      {"another width", encode(inside, values, 2, residual, right), "width 2 of a table of width 3"},
      {"too few values", encode(inside, few, 3, residual, right), "2 rows of 3 with 5 values"},
      {"another residual", encode(inside, values, 3, other, right), "10 rows of 3 with a residual of 29"},
      {"too little room", encode(inside, values, 3, residual, small), "there is room for 8"},
  });
}

TEST(EncodedRows, FromElsewhereAreRefusedInOneLine) {
  const bytes right = rows_encoded("float16", {1, 2}, floats(6, 1));
  decoded_rows to;
  const auto forged = [&](std::size_t at, std::uint32_t word) {
    return [&, at, word] {
      bytes message = right;
      put_whole(message, at, word);
      decode_rows(parse_wire_format("float16"), message, encoded_table, to);
    };
  };
  expect_refused({
      {"too many rows", forged(0, 3), "expected 50 bytes for 3 rows, found 40"},
      {"far too many", forged(0, 0xffffffff),
       "float16 rows message: expected 4294967295 rows, found 40 bytes"},
      {"another width", forged(4, 4), "expected rows of 3 values, found 4"},
      {"a row behind the table", forged(12, 10), "expected rows of a table of 10, found row 10"},
      {"a negative row", forged(8, 0xffffffff), "found row 4294967295"},
      {"another count of values", forged(20, 5), "expected 6 numbers, found 5"},
      {"no header", [&] { decode_rows(parse_wire_format("float16"), bytes(7), encoded_table, to); },
       "expected a header of 8 bytes, found 7"},
  });
  EXPECT_TRUE(to.rows.empty());
}

TEST(EncodedRows, ForgedAHundredThousandTimesAreRowsOfTheTableOrNone) {
  const testing::slice rounds = testing::slice_of(100'000);
  std::size_t refused = 0;
  decoded_rows to;
  for (const std::uint64_t round : rounds) {
    std::mt19937_64 rng(round);
    const std::string_view format = formats_to_test[round % std::size(formats_to_test)];
    rows listed(rng() % 6);
    for (std::int32_t& row : listed) row = static_cast<std::int32_t>(rng() % encoded_table.rows);
    bytes message = rows_encoded(format, listed, drawn_whole_numbers(3 * listed.size(), rng));
    for (std::uint64_t flips = rng() % 4; flips > 0; --flips)
      message[rng() % message.size()] ^= std::byte{1} << (rng() % 8);
    if (rng() % 4 == 0) message.resize(rng() % (message.size() + 1));
    try {
      decode_rows(parse_wire_format(format), message, encoded_table, to);
    } catch (const wire_error&) {
      ++refused;
      ASSERT_TRUE(to.rows.empty());
      continue;
    }
    ASSERT_EQ(to.values.size(), 3 * to.rows.size());
    for (const std::int32_t row : to.rows) ASSERT_TRUE(row >= 0 && row < 10);
  }
  EXPECT_GT(refused, rounds.size() / 4);
}

} // namespace
} // namespace mailgrad
