#include <mailgrad/tests/fuzz/fuzz_input.hpp>
#include <mailgrad/tests/fuzz/targets.hpp>

#include <mailgrad/engine/wire/encoded_numbers.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace mailgrad::fuzz {

namespace {

using message = std::vector<std::byte>;

wire_format format_of(fuzz_input& in) {
  const std::uint8_t choice = in.u8();
  wire_format f{static_cast<wire_encoding>(choice % 6)};
  if (f.encoding == wire_encoding::int8 || f.encoding == wire_encoding::one_bit)
    f.block = 16U << (choice / 6 % 8);
  if (f.encoding == wire_encoding::top_k) f.share = (choice / 6 + 1) / 64.0;
  return f;
}

/// The rest of the input, or as many bytes as a right message has, with its header.
message message_of(fuzz_input& in, const wire_format& f, std::size_t count, bool is_right) {
  const auto rest = in.rest();
  message m(rest.begin(), rest.end());
  if (!is_right) return m;
  const wire_layout layout(f, count);
  m.resize(layout.bytes());
  put_whole(m, 0, static_cast<std::uint32_t>(f.encoding));
  put_whole(m, 4, layout.header.count);
  put_whole(m, 8, layout.header.setting);
  return m;
}

bool promises_finite_numbers(wire_encoding e) {
  return e == wire_encoding::int8 || e == wire_encoding::top_k || e == wire_encoding::one_bit;
}

} // namespace

/// Which format, whether the header is right, how many numbers are expected, and the message.
void wire_numbers(std::span<const std::byte> input) {
  fuzz_input in(input);
  const wire_format f = format_of(in);
  const bool is_right = in.u8() % 4 != 0;
  const std::size_t count = in.u16() % 2048;
  const message m = message_of(in, f, count, is_right);
  constexpr float untouched = 42;
  std::vector<float> numbers(count, untouched);
  try {
    decode_numbers(f, m, numbers);
  } catch (const wire_error& e) {
    require_one_line(e);
    require(std::ranges::count(numbers, untouched) == static_cast<std::ptrdiff_t>(count),
            "a refused message has changed a number");
    return;
  }
  require(m.size() == encoded_bytes(f, count), "a message of another length was taken");
  if (promises_finite_numbers(f.encoding))
    require(std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); }), "a number is not finite");
  if (f.encoding != wire_encoding::float32) return;
  message again(m.size());
  require(encode_numbers(f, numbers, {}, again) && again == m, "float32 does not come back as it was");
}

/// As wire_numbers(), with a table. A right message begins with a right header of rows.
void wire_rows(std::span<const std::byte> input) {
  fuzz_input in(input);
  const wire_format f = format_of(in);
  const bool is_right = in.u8() % 4 != 0;
  const table_extent table{in.u16() % std::size_t{1024}, in.u8() % std::size_t{33}};
  message m;
  if (is_right) {
    const std::size_t rows = in.u8();
    m.resize(8 + 4 * rows);
    put_whole(m, 0, static_cast<std::uint32_t>(rows));
    put_whole(m, 4, static_cast<std::uint32_t>(table.width));
    for (std::size_t i = 0; i < rows; ++i) put_whole(m, 8 + 4 * i, in.u16());
    const message values = message_of(in, f, rows * table.width, true);
    m.insert(m.end(), values.begin(), values.end());
  } else {
    m = message_of(in, f, 0, false);
  }
  decoded_rows to{{1}, {1}};
  try {
    decode_rows(f, m, table, to);
  } catch (const wire_error& e) {
    require_one_line(e);
    require(to.rows.empty(), "a refused message lists a row");
    return;
  }
  require(to.values.size() == to.rows.size() * table.width, "rows and values do not fit together");
  for (const std::int32_t row : to.rows)
    require(row >= 0 && static_cast<std::size_t>(row) < table.rows, "a row that the table lacks was taken");
}

} // namespace mailgrad::fuzz
