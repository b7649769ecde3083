#include <mailgrad/engine/wire/encoded_numbers.hpp>
#include <mailgrad/engine/wire/error_feedback.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/slices.hpp>
#include <mailgrad/tests/support/special_floats.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace mailgrad {
namespace {

using testing::expect_refused;
using testing::infinity;
using testing::nan;

using bytes = std::vector<std::byte>;
using floats = std::vector<float>;
using rows = std::vector<std::int32_t>;

/// One of each encoding, with small blocks so that a few numbers fill several.
constexpr std::string_view formats_to_test[] = {"float32",        "float16",        "bfloat16",
                                                "int8:block=16",  "top-k:0.1",      "1-bit:block=16",
                                                "int8:block=256", "1-bit:block=512"};
constexpr std::string_view lossy_formats[] = {"float16",   "bfloat16", "int8:block=16",
                                              "top-k:0.1", "top-k:1",  "1-bit:block=16"};

constexpr table_extent table{10, 3};

/// Numbers of many magnitudes.
floats drawn_numbers(std::size_t n, std::mt19937_64& rng) {
  std::normal_distribution<float> normal(0, 1);
  floats x(n);
  for (float& v : x) v = std::ldexp(normal(rng), static_cast<int>(rng() % 9) - 4);
  return x;
}

/// Whole numbers, so that sums of them are exact.
floats drawn_whole_numbers(std::size_t n, std::mt19937_64& rng) {
  floats x(n);
  for (float& v : x) v = static_cast<float>(static_cast<int>(rng() % 41) - 20);
  return x;
}

std::vector<std::uint32_t> bits_of(std::span<const float> x) {
  std::vector<std::uint32_t> all;
  for (const float v : x) all.push_back(std::bit_cast<std::uint32_t>(v));
  return all;
}

bytes encoded(std::string_view format, std::span<const float> x, std::span<float> residual = {}) {
  const wire_format f = parse_wire_format(format);
  bytes to(encoded_bytes(f, x.size()));
  EXPECT_TRUE(encode_numbers(f, x, residual, to)) << format;
  return to;
}

floats decoded(std::string_view format, const bytes& from, std::size_t n) {
  floats to(n, 99);
  decode_numbers(parse_wire_format(format), from, to);
  return to;
}

std::string in_hex(const bytes& all) {
  std::string text;
  for (const std::byte b : all) {
    constexpr std::string_view digits = "0123456789abcdef";
    text += digits[static_cast<std::size_t>(b) >> 4U];
    text += digits[static_cast<std::size_t>(b) & 15U];
  }
  return text;
}

TEST(EncodedNumbers, AreTheBytesOfThePage) {
  const std::pair<const char*, std::string> page[] = {
      {"float32", "00000000 03000000 00000000 0000803f 000000c0 0000003f"},
      {"float16", "01000000 03000000 00000000 003c 00c0 0038"},
      {"bfloat16", "02000000 03000000 00000000 803f 00c0 003f"},
      {"int8:block=16", "03000000 03000000 10000000 0502813c 3f8120"},
      {"top-k:0.6", "04000000 03000000 02000000 00000000 01000000 0000803f 000000c0"},
      {"1-bit:block=16", "05000000 03000000 10000000 000000c0 0000403f 05"}};
  for (auto [format, in_words] : page) {
    std::erase(in_words, ' ');
    EXPECT_EQ(in_hex(encoded(format, floats{1, -2, 0.5F})), in_words) << format;
  }
}

TEST(EncodedNumbers, TakeAsManyBytesAsThePageSays) {
  const auto size = [](const char* format, std::size_t n) {
    return encoded_bytes(parse_wire_format(format), n);
  };
  for (const char* format : {"float32", "float16", "bfloat16", "int8", "top-k:0.01", "1-bit"})
    EXPECT_EQ(size(format, 0), 12U) << format;
  EXPECT_EQ(size("float32", 1000), 12U + 4000);
  EXPECT_EQ(size("float16", 1000), 12U + 2000);
  EXPECT_EQ(size("int8:block=256", 256), 12U + 4 + 256);
  EXPECT_EQ(size("int8:block=256", 257), 12U + 8 + 257);
  EXPECT_EQ(size("1-bit:block=512", 512), 12U + 8 + 64);
  EXPECT_EQ(size("1-bit:block=512", 513), 12U + 16 + 65);
  EXPECT_EQ(size("top-k:0.01", 1), 12U + 8);       // at least one
  EXPECT_EQ(size("top-k:0.07", 100), 12U + 8 * 7); // to the nearest
  EXPECT_EQ(size("top-k:1", 100), 12U + 8 * 100);
}

/// Whether x, of numbers up to `largest`, may be read as y.
bool is_within_bounds(std::string_view format, float x, float y, float largest) {
  const float off = std::abs(x - y);
  if (format == "float16") return off <= std::max(std::abs(x) * 0x1p-11F, 0x1p-25F);
  if (format == "bfloat16") return off <= std::abs(x) * 0x1p-8F;
  if (format.starts_with("int8")) return off <= largest / 254 * 1.000001F;
  if (format.starts_with("top-k")) return y == 0 || off == 0;
  if (format.starts_with("1-bit")) return x < 0 ? y < 0 : y >= 0;
  return off == 0;
}

/// Sizes around every block and byte, and what each number may be off by.
TEST(EncodedNumbers, AreReadWithinTheirBoundsAtEverySize) {
  std::mt19937_64 rng(1);
  for (const std::string_view format : formats_to_test)
    for (const std::size_t n :
         {0U, 1U, 2U, 7U, 8U, 9U, 15U, 16U, 17U, 31U, 32U, 33U, 255U, 256U, 257U, 511U, 512U, 513U}) {
      const floats x = drawn_numbers(n, rng);
      const floats y = decoded(format, encoded(format, x), n);
      const float largest =
          x.empty() ? 0 : std::abs(std::ranges::max(x, {}, [](float v) { return std::abs(v); }));
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_TRUE(is_within_bounds(format, x[i], y[i], largest))
            << format << ": " << x[i] << " as " << y[i];
      }
    }
}

TEST(EncodedNumbers, LeaveInTheResidualWhatTheReceiverLacks) {
  std::mt19937_64 rng(2);
  for (const std::string_view format : lossy_formats)
    for (const std::size_t n : {0U, 1U, 16U, 17U, 100U, 1000U}) {
      const floats x = drawn_numbers(n, rng);
      const floats before = drawn_numbers(n, rng);
      floats residual = before;
      const floats y = decoded(format, encoded(format, x, residual), n);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(residual[i], (x[i] + before[i]) - y[i]) << format;
      floats zeros(n);
      EXPECT_EQ(encoded(format, x, zeros), encoded(format, x)) << format << " as without a residual";
    }
}

TEST(EncodedNumbers, SayWhatIsNotFiniteOrAreNotMade) {
  for (const float bad : {infinity, -infinity, nan})
    for (const std::string_view format : lossy_formats) {
      const wire_format f = parse_wire_format(format);
      floats x(40, 1), residual(40, 0.125F);
      x[23] = bad;
      bytes to(encoded_bytes(f, x.size()));
      const bool made = encode_numbers(f, x, residual, to);
      EXPECT_EQ(made, format == "float16" || format == "bfloat16") << format;
      if (!made) {
        EXPECT_EQ(residual, floats(40, 0.125F)) << format;
        continue;
      }
      const float read = decoded(format, to, 40)[23];
      EXPECT_TRUE(std::isnan(bad) ? std::isnan(read) : read == bad);
      EXPECT_EQ(residual[23], 0.125F);
    }
  const floats x{nan, infinity, -0.0F, std::numeric_limits<float>::denorm_min()};
  EXPECT_EQ(bits_of(decoded("float32", encoded("float32", x), 4)), bits_of(x)) << "float32 keeps every bit";
}

/// FNV-1a over the bytes of all formats and their residuals: a figure of one machine holds on every other.
TEST(EncodedNumbers, AreTheSameBitsOnEveryProcessor) {
  std::uint64_t hash = 14695981039346656037U;
  const auto add = [&](std::uint64_t byte) { hash = (hash ^ byte) * 1099511628211U; };
  std::uint32_t state = 1; // not by a distribution of the library, which may differ
  const auto draw = [&] {
    state = state * 1664525 + 1013904223;
    const float unit = static_cast<float>(state >> 8U) * 0x1p-24F - 0.5F;
    return unit * unit * unit;
  };
  for (const std::string_view format : lossy_formats) {
    floats x(1003), residual(1003);
    for (float& v : x) v = draw();
    for (float& v : residual) v = draw() / 16;
    for (const std::byte b : encoded(format, x, residual)) add(static_cast<std::uint64_t>(b));
    for (const std::uint32_t bits : bits_of(residual)) add(bits);
  }
  EXPECT_EQ(hash, 10694776311082424130U);
}

TEST(EncodedNumbers, AreRefusedWithOtherLengths) {
  const floats x(4);
  floats three(3), four(4);
  bytes small(10), right(28);
  const auto encode = [&](const char* format, std::span<float> residual, std::span<std::byte> to) {
    return [&x, format, residual, to] {
      static_cast<void>(encode_numbers(parse_wire_format(format), x, residual, to));
    };
  };
  expect_refused({
      {"too little room", encode("float32", {}, small),
       "float32: 4 numbers take 28 bytes; there is room for 10"},
      {"too much room", encode("float16", {}, right),
       "float16: 4 numbers take 20 bytes; there is room for 28"},
      {"another residual", encode("int8", three, small), "int8:block=256: 4 numbers with a residual of 3"},
      {"a residual of float32", encode("float32", four, right), "float32 takes no residual"},
      {"too many", [] { encoded_bytes(parse_wire_format("float16"), std::size_t{1} << 32U); },
       "4294967296 numbers are more than 32 bits can count"},
  });
}

struct forgery {
  const char* format;
  std::size_t numbers;
  std::size_t at; ///< a word to change
  std::uint32_t word;
  const char* says;
};

TEST(EncodedNumbers, FromElsewhereAreRefusedInOneLine) {
  constexpr std::uint32_t a_nan = 0x7fc00000, an_infinity = 0x7f800000, minus_one = 0xbf800000;
  constexpr std::uint32_t too_large = 0x7c01020bU; // 127 times this is infinite
  const std::array forgeries{
      forgery{"float16", 4, 0, 2, "float16 message: expected encoding 1, found 2"},
      forgery{"float16", 4, 0, 0x101, "expected encoding 1, found 257"},
      forgery{"float16", 4, 4, 5, "expected 4 numbers, found 5"},
      forgery{"float16", 4, 8, 1, "expected 0 numbers a block, found 1"},
      forgery{"int8", 4, 8, 128, "expected 256 numbers a block, found 128"},
      forgery{"int8", 4, 12, a_nan, "expected scales from 0 on, found nan as number 0"},
      forgery{"int8", 4, 12, minus_one, "found -1 as number 0"},
      forgery{"int8", 4, 12, too_large, "expected scales from 0 on"},
      forgery{"int8", 4, 16, 0x00800000, "expected multiples from -127 on, found -128 as number 2"},
      forgery{"top-k:0.5", 4, 8, 3, "expected 2 places, found 3"},
      forgery{"top-k:0.5", 4, 12, 4, "expected ascending places from 0 to 3, found 4"},
      forgery{"top-k:0.5", 4, 16, 0, "expected ascending places from 1 to 3, found 0"},
      forgery{"top-k:0.5", 4, 24, an_infinity, "expected numbers that are finite, found inf as number 1"},
      forgery{"1-bit", 4, 12, a_nan, "expected means that are finite, found nan as number 0"},
      forgery{"1-bit", 12, 18, 0x10ff0000, "expected 12 signs, found bits behind them"},
  };
  for (const forgery& wrong : forgeries) {
    bytes message = encoded(wrong.format, floats(wrong.numbers, 1));
    put_whole(message, wrong.at, wrong.word);
    floats to(wrong.numbers, 99);
    expect_refused(
        {{wrong.says, [&] { decode_numbers(parse_wire_format(wrong.format), message, to); }, wrong.says}});
    EXPECT_EQ(to, floats(wrong.numbers, 99)) << "something was written";
  }
}

TEST(EncodedNumbers, OfOtherLengthsAreRefused) {
  for (const std::string_view format : formats_to_test) {
    const wire_format f = parse_wire_format(format);
    bytes message = encoded(format, floats(40, 1));
    floats to(40, 99);
    for (std::size_t n = 0; n < message.size(); ++n) {
      const bytes cut(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(n));
      EXPECT_THROW(decode_numbers(f, cut, to), wire_error) << format;
    }
    message.push_back({});
    EXPECT_THROW(decode_numbers(f, message, to), wire_error) << format;
    EXPECT_EQ(to, floats(40, 99));
  }
}

/// Each is read to finite numbers or refused; what stands around the numbers stays. The sanitizers see reads.
TEST(EncodedNumbers, ForgedAHundredThousandTimesNeverWriteBesideTheirPlace) {
  constexpr std::size_t n = 67, guard = 8;
  const testing::slice rounds = testing::slice_of(100'000);
  std::mt19937_64 rng(4);
  std::vector<bytes> right;
  for (const std::string_view format : formats_to_test)
    right.push_back(encoded(format, drawn_numbers(n, rng)));
  std::size_t refused = 0;
  for (const std::uint64_t round : rounds) {
    rng.seed(round);
    const std::string_view format = formats_to_test[round % right.size()];
    bytes message = right[round % right.size()];
    for (std::uint64_t flips = rng() % 4; flips > 0; --flips)
      message[rng() % message.size()] ^= std::byte{1} << (rng() % 8);
    if (rng() % 4 == 0) message.resize(rng() % (message.size() + 1));
    if (rng() % 16 == 0)
      put_whole(message, rng() % 3 * 4 % std::max<std::size_t>(message.size(), 4), 0xffffffff);
    floats memory(n + 2 * guard, 99);
    const std::span<float> to(memory.data() + guard, n);
    try {
      decode_numbers(parse_wire_format(format), message, to);
    } catch (const wire_error&) {
      ++refused;
      ASSERT_EQ(memory, floats(n + 2 * guard, 99)) << format;
    }
    for (std::size_t i = 0; i < guard; ++i) ASSERT_TRUE(memory[i] == 99 && memory[n + guard + i] == 99);
    const bool may_be_infinite = format.find("float") != format.npos;
    for (const float v : to) ASSERT_TRUE(may_be_infinite || std::isfinite(v)) << format;
  }
  EXPECT_GT(refused, rounds.size() / 4);
  EXPECT_LT(refused, rounds.size());
}

bytes rows_encoded(std::string_view format, const rows& listed, const floats& values,
                   std::span<float> residual = {}) {
  const wire_format f = parse_wire_format(format);
  const gradient_rows part{0, table.width, listed, values};
  bytes to(encoded_row_bytes(f, listed_rows(part).rows.size(), table.width));
  floats scratch;
  EXPECT_TRUE(encode_rows(f, part, table, residual, scratch, to));
  return to;
}

decoded_rows decoded(std::string_view format, const bytes& from) {
  decoded_rows to;
  decode_rows(parse_wire_format(format), from, table, to);
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

TEST(EncodedRows, EndBeforeTheFirstNegativeOneAndMayBeNone) {
  const decoded_rows one = decoded("float32", rows_encoded("float32", {2, -1, 99}, floats(9, 1)));
  EXPECT_EQ(one.rows, rows{2});
  EXPECT_EQ(one.values, floats(3, 1));
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
  const floats values{1, 2, infinity, 4, 5, 6};
  const rows listed{7, 7};
  floats residual(30, 0.5F), scratch;
  for (const char* format : {"int8", "top-k:0.5", "1-bit"}) {
    const wire_format f = parse_wire_format(format);
    bytes to(encoded_row_bytes(f, 2, 3));
    EXPECT_FALSE(encode_rows(f, {0, 3, listed, values}, table, residual, scratch, to));
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
    return [&, width] { static_cast<void>(encode_rows(f, {0, width, listed, v}, table, r, scratch, to)); };
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
      decode_rows(parse_wire_format("float16"), message, table, to);
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
      {"no header", [&] { decode_rows(parse_wire_format("float16"), bytes(7), table, to); },
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
    for (std::int32_t& row : listed) row = static_cast<std::int32_t>(rng() % table.rows);
    bytes message = rows_encoded(format, listed, drawn_whole_numbers(3 * listed.size(), rng));
    for (std::uint64_t flips = rng() % 4; flips > 0; --flips)
      message[rng() % message.size()] ^= std::byte{1} << (rng() % 8);
    if (rng() % 4 == 0) message.resize(rng() % (message.size() + 1));
    try {
      decode_rows(parse_wire_format(format), message, table, to);
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

TEST(WireFormat, IsReadFromTextAndWrittenAsTheTextThatReadsAsTheSame) {
  struct row {
    const char* text;
    wire_format format;
    const char* written;
  };
  using enum wire_encoding;
  for (const row& r :
       {row{"float32", {float32}, "float32"}, row{"float16", {float16}, "float16"},
        row{"bfloat16", {bfloat16}, "bfloat16"}, row{"int8", {int8, 256}, "int8:block=256"},
        row{"int8:block=16", {int8, 16}, "int8:block=16"}, row{"top-k:0.01", {top_k, 0, 0.01}, "top-k:0.01"},
        row{"top-k:1", {top_k, 0, 1}, "top-k:1"}, row{"1-bit", {one_bit, 512}, "1-bit:block=512"},
        row{"1-bit:block=65536", {one_bit, 65536}, "1-bit:block=65536"}}) {
    EXPECT_EQ(parse_wire_format(r.text), r.format) << r.text;
    EXPECT_EQ(to_string(r.format), r.written);
    EXPECT_EQ(is_lossy(r.format), r.format.encoding != float32) << "only float32 loses nothing";
  }
  EXPECT_EQ(wire_format_forms().size(), 6U);
  EXPECT_EQ(wire_format_forms()[4].text, "top-k:SHARE");
}

TEST(WireFormat, OfOtherTextsIsRefusedWithWhatWouldBeRight) {
  const auto read = [](const char* text) { return [text] { parse_wire_format(text); }; };
  expect_refused({
      {"a slip", read("bfloat61"), "wire format 'bfloat61' is unknown; did you mean 'bfloat16'?"},
      {"another slip", read("topk:0.1"), "did you mean 'top-k'?"},
      {"a stranger", read("zstandard"), "known are: float32, float16, bfloat16, int8, top-k, 1-bit"},
      {"nothing", read(""), "wire format '' is unknown"},
      {"a setting of none", read("float16:block=4"), "'float16' has no settings"},
      {"another setting", read("int8:blok=4"), "did you mean 'block'?"},
      {"a small block", read("int8:block=8"), "block must be a whole number from 16 to 65536, not '8'"},
      {"a large block", read("1-bit:block=131072"), "from 16 to 65536"},
      {"a block of odd size", read("1-bit:block=48"), "block must be a power of two, not 48"},
      {"no share", read("top-k"), "write it as top-k:0.01"},
      {"two shares", read("top-k:0.1,0.2"), "write it as top-k:0.01"},
      {"a share of nothing", read("top-k:0"), "more than 0 and at most 1"},
      {"more than all", read("top-k:1.5"), "more than 0 and at most 1"},
      {"no number", read("top-k:nan"), "more than 0 and at most 1"},
      {"a word", read("top-k:few"), "more than 0 and at most 1"},
  });
}

using sums = std::vector<double>;

floats decoded(const wire_format& f, const wire_message& message, std::size_t n) {
  floats to(n);
  decode_numbers(f, *message, to);
  return to;
}

floats residual_of(const error_feedback& f) { return {f.residual().begin(), f.residual().end()}; }

void add(sums& to, std::span<const float> x) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += static_cast<double>(x[i]);
}

/// Multiples of 2^-14 below 16: sums of hundreds of them are exact in float32.
floats drawn_multiples(std::size_t n, std::mt19937_64& rng) {
  floats x(n);
  for (float& v : x) v = (static_cast<float>(rng() % (1U << 19U)) - 0x1p18F) * 0x1p-14F;
  return x;
}

/// What a worker and its shard have after many steps with up to four messages in flight, of which the shard
/// discards one in three.
struct balance {
  sums made, applied;
  floats residual;
};

balance after_many_steps(const wire_format& f, std::size_t n, std::mt19937_64& rng,
                         floats (*draw)(std::size_t, std::mt19937_64&)) {
  error_feedback feedback(f, n);
  balance a{sums(n), sums(n), {}};
  std::vector<std::pair<step_number, wire_message>> in_flight;
  const auto settle = [&] {
    const std::size_t which = rng() % in_flight.size();
    const auto [step, message] = in_flight[which];
    in_flight.erase(in_flight.begin() + static_cast<std::ptrdiff_t>(which));
    if (rng() % 3 == 0) return feedback.give_back(step);
    add(a.applied, decoded(f, message, n));
    feedback.applied(step);
  };
  for (step_number step{1}; step.value <= 200; ++step) {
    const floats g = draw(n, rng);
    add(a.made, g);
    in_flight.emplace_back(step, feedback.send(step, g));
    while (in_flight.size() > rng() % 5) settle();
    EXPECT_EQ(feedback.in_flight(), in_flight.size());
  }
  while (!in_flight.empty()) settle();
  a.residual = residual_of(feedback);
  return a;
}

TEST(ErrorFeedback, LosesNothingWhateverIsDiscarded) {
  std::mt19937_64 rng(1);
  for (const std::string_view format : lossy_formats)
    for (const std::size_t n : {1U, 16U, 131U}) {
      const balance a = after_many_steps(parse_wire_format(format), n, rng, drawn_numbers);
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_NEAR(a.made[i], a.applied[i] + static_cast<double>(a.residual[i]), 2e-3)
            << format << ", number " << i;
    }
}

TEST(ErrorFeedback, LosesExactlyNothingWhereSumsAreExact) {
  std::mt19937_64 rng(2);
  for (const char* format : {"float16", "bfloat16", "top-k:0.1", "top-k:1"}) {
    const balance a = after_many_steps(parse_wire_format(format), 131, rng, drawn_multiples);
    for (std::size_t i = 0; i < a.made.size(); ++i)
      ASSERT_EQ(a.made[i], a.applied[i] + static_cast<double>(a.residual[i])) << format << ", number " << i;
  }
}

TEST(ErrorFeedback, SendsLaterWhatItKept) {
  const wire_format f = parse_wire_format("top-k:0.5"), exact = parse_wire_format("float32");
  error_feedback feedback(f, 2), of_float32(exact, 2);
  EXPECT_EQ(decoded(f, feedback.send({1}, floats{3, 2}), 2), (floats{3, 0}));
  EXPECT_EQ(decoded(f, feedback.send({2}, floats{3, 2}), 2), (floats{0, 4}));
  EXPECT_EQ(decoded(f, feedback.send({3}, floats{0, 0}), 2), (floats{3, 0}));
  EXPECT_EQ(decoded(exact, of_float32.send({1}, floats{3, 2}), 2), (floats{3, 2}));
  of_float32.give_back({1});
  EXPECT_TRUE(of_float32.residual().empty()) << "float32 keeps nothing";
}

TEST(ErrorFeedback, GetsBackTheMessageOfItsStepAndNoOther) {
  const wire_format f = parse_wire_format("top-k:0.5");
  error_feedback feedback(f, 2);
  feedback.send({1}, floats{3, 2});  // sends 3, 0
  feedback.send({2}, floats{1, 7});  // sends 0, 9
  feedback.send({5}, floats{-8, 0}); // sends -7, 0
  feedback.applied({1});
  feedback.give_back({2});
  EXPECT_EQ(residual_of(feedback), (floats{0, 9}));
  feedback.give_back({5});
  EXPECT_EQ(residual_of(feedback), (floats{-7, 9}));
  EXPECT_EQ(feedback.in_flight(), 0U);
}

TEST(ErrorFeedback, IsNotHarmedByWhatIsNotFinite) {
  for (const std::string_view format : lossy_formats) {
    error_feedback feedback(parse_wire_format(format), 3);
    feedback.send({1}, floats{1.00001F, 0.3F, -0.7F});
    feedback.applied({1});
    const floats before = residual_of(feedback);
    if (feedback.send({2}, floats{nan, nan, nan})) feedback.give_back({2});
    EXPECT_EQ(residual_of(feedback), before) << format;
    EXPECT_EQ(feedback.in_flight(), 0U) << format;
  }
}

TEST(ErrorFeedback, UsesTheMemoryOfAMessageAgainWhenNobodyHoldsIt) {
  error_feedback feedback(parse_wire_format("float16"), 2);
  wire_message first = feedback.send({1}, floats{3, 2});
  const void* memory = first->data();
  feedback.applied({1});
  const wire_message second = feedback.send({2}, floats{3, 2});
  EXPECT_NE(second->data(), memory) << "the sender still holds the first";
  first.reset();
  EXPECT_EQ(feedback.send({3}, floats{3, 2})->data(), memory);
}

TEST(ErrorFeedback, RefusesWhatItCannotMean) {
  error_feedback feedback(parse_wire_format("float16"), 2);
  const auto send = [&feedback](std::uint64_t step, std::size_t numbers) {
    return [&feedback, step, numbers] { feedback.send({step}, floats(numbers, 1)); };
  };
  for (const std::uint64_t step : {1, 2}) send(step, 2)();
  feedback.applied({2});
  expect_refused({
      {"another length", send(3, 1), "error_feedback: 1 against 2"},
      {"a step in flight", send(1, 2), "step 1 is in flight already"},
      {"a step settled before", [&] { feedback.applied({2}); }, "no gradient of step 2 is in flight"},
      {"a step never sent", [&] { feedback.give_back({9}); }, "no gradient of step 9 is in flight"},
  });
  EXPECT_EQ(feedback.in_flight(), 1U);
}

void add(sums& to, const rows& listed, std::span<const float> values) {
  for (std::size_t i = 0; i < listed.size(); ++i)
    for (std::size_t c = 0; c < table.width; ++c)
      to[static_cast<std::size_t>(listed[i]) * table.width + c] +=
          static_cast<double>(values[table.width * i + c]);
}

TEST(RowFeedback, LosesNothingWhateverIsDiscarded) {
  std::mt19937_64 rng(1);
  for (const std::string_view format : lossy_formats) {
    const wire_format f = parse_wire_format(format);
    row_feedback feedback(f, table);
    sums made(30), applied(30);
    std::vector<std::pair<step_number, wire_message>> in_flight;
    for (step_number step{1}; step.value <= 300; ++step) {
      rows listed(rng() % 7);
      for (std::int32_t& row : listed) row = static_cast<std::int32_t>(rng() % table.rows);
      const floats values = drawn_whole_numbers(3 * listed.size(), rng);
      add(made, listed, values);
      in_flight.emplace_back(step, feedback.send(step, {0, 3, listed, values}));
      if (in_flight.size() < 3 && step.value < 300) continue;
      for (const auto& [sent, message] : in_flight) {
        if (rng() % 3 == 0) {
          feedback.give_back(sent);
          continue;
        }
        decoded_rows read;
        decode_rows(f, *message, table, read);
        add(applied, read.rows, read.values);
        feedback.applied(sent);
      }
      in_flight.clear();
    }
    for (std::size_t i = 0; i < made.size(); ++i)
      ASSERT_NEAR(made[i], applied[i] + static_cast<double>(feedback.residual()[i]), 5e-3)
          << format << ", " << i;
  }
}

TEST(RowFeedback, KeepsTheRestOfARowUntilItComesAgain) {
  row_feedback feedback(parse_wire_format("top-k:0.3"), table); // one number of a row
  feedback.send({1}, {0, 3, rows{4}, floats{5, 2, 1}});
  feedback.send({2}, {0, 3, rows{6}, floats{1, 1, 1}});
  const wire_message third = feedback.send({3}, {0, 3, rows{4}, floats{0, 2, 1}});
  decoded_rows read;
  decode_rows(parse_wire_format("top-k:0.3"), *third, table, read);
  EXPECT_EQ(read.rows, rows{4});
  EXPECT_EQ(read.values, (floats{0, 4, 0}));
}

TEST(RowFeedback, SendsNothingThatIsNotFiniteAndRefusesWhatItCannotMean) {
  row_feedback feedback(parse_wire_format("int8"), table);
  EXPECT_FALSE(feedback.send({1}, {0, 3, rows{4}, floats{5, infinity, 1}}));
  EXPECT_EQ(feedback.in_flight(), 0U);
  const auto send = [&feedback](std::uint64_t step, const rows& listed) {
    return [&feedback, step, listed] { feedback.send({step}, {0, 3, listed, floats(3)}); };
  };
  send(1, {4})();
  expect_refused({
      {"a row behind the table", send(2, {10}), "row 10 of a table of 10"},
      {"too few values", send(2, {1, 2}), "2 rows of 3 with 3 values"},
      {"a step in flight", send(1, {1}), "step 1 is in flight already"},
      {"a step never sent", [&] { feedback.give_back({9}); }, "no gradient of step 9 is in flight"},
  });
}

constexpr std::size_t dealt_workers = 4, samples = 32, features = 24;

/// Linear regression whose samples are dealt to workers by where they lie, so that the workers' gradients do
/// not vanish where their mean does.
struct regression {
  std::vector<std::vector<floats>> x{dealt_workers};
  std::vector<floats> y{dealt_workers};

  regression() {
    std::mt19937_64 rng(7);
    std::normal_distribution<float> normal(0, 1);
    floats truth(features);
    for (float& w : truth) w = normal(rng);
    for (std::size_t k = 0; k < dealt_workers; ++k)
      for (std::size_t s = 0; s < samples; ++s) {
        floats row(features);
        float target = static_cast<float>(k) - 1.5F + 0.3F * normal(rng);
        for (std::size_t i = 0; i < features; ++i) {
          row[i] = normal(rng) * (i % dealt_workers == k ? 2.0F : 0.5F);
          target += truth[i] * row[i];
        }
        x[k].push_back(row);
        y[k].push_back(target);
      }
  }

  float error(std::size_t k, std::size_t s, const floats& w) const {
    float e = -y[k][s];
    for (std::size_t i = 0; i < features; ++i) e += w[i] * x[k][s][i];
    return e;
  }
  floats gradient(std::size_t k, const floats& w) const {
    floats g(features);
    for (std::size_t s = 0; s < samples; ++s) {
      const float e = error(k, s, w) / samples;
      for (std::size_t i = 0; i < features; ++i) g[i] += e * x[k][s][i];
    }
    return g;
  }
  double loss(const floats& w) const {
    double sum = 0;
    for (std::size_t k = 0; k < dealt_workers; ++k)
      for (std::size_t s = 0; s < samples; ++s) sum += std::pow(static_cast<double>(error(k, s, w)), 2);
    return sum / (2 * dealt_workers * samples);
  }
};

/// Gradient descent on the mean of what the workers' messages say.
double trained_loss(std::string_view format, bool with_feedback) {
  const regression problem;
  const wire_format f = parse_wire_format(format);
  std::vector<error_feedback> feedbacks;
  for (std::size_t k = 0; k < dealt_workers; ++k) feedbacks.emplace_back(f, features);
  floats w(features), decoded(features);
  for (step_number step{1}; step.value <= 3000; ++step) {
    floats mean(features);
    for (std::size_t k = 0; k < dealt_workers; ++k) {
      const floats g = problem.gradient(k, w);
      std::vector<std::byte> alone(encoded_bytes(f, features));
      if (with_feedback) {
        decode_numbers(f, *feedbacks[k].send(step, g), decoded);
        feedbacks[k].applied(step);
      } else {
        EXPECT_TRUE(encode_numbers(f, g, {}, alone));
        decode_numbers(f, alone, decoded);
      }
      for (std::size_t i = 0; i < features; ++i) mean[i] += decoded[i] / dealt_workers;
    }
    for (std::size_t i = 0; i < features; ++i) w[i] -= 0.01F * mean[i];
  }
  return problem.loss(w);
}

TEST(WireConvergence, OfEveryFormatWithErrorFeedbackIsThatOfFloat32AndOfCoarseOnesWithoutItIsWorse) {
  const double least = trained_loss("float32", true);
  for (const char* format :
       {"float16", "bfloat16", "int8:block=16", "1-bit:block=16", "top-k:0.25", "top-k:0.05"})
    EXPECT_LT(trained_loss(format, true), 1.001 * least) << format;
  EXPECT_GT(trained_loss("1-bit:block=16", false), 1.5 * least);
  EXPECT_GT(trained_loss("top-k:0.05", false), 1.05 * least);
}

} // namespace
} // namespace mailgrad
