#include <mailgrad/engine/wire/encoded_numbers.hpp>
#include <mailgrad/kernels/encodings.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mailgrad {

namespace {

struct compensated_numbers {
  std::span<const float> x;
  std::span<float> residual;

  compensated_numbers block(std::size_t begin, std::size_t size) const {
    const std::size_t count = std::min(size, x.size() - begin);
    return {x.subspan(begin, count), residual.empty() ? residual : residual.subspan(begin, count)};
  }
};

void write_header(const wire_header& h, std::span<std::byte> to) {
  put_whole(to, 0, static_cast<std::uint8_t>(h.encoding));
  put_whole(to, 4, h.count);
  put_whole(to, 8, h.setting);
}

// What blocks share is written first. Then all numbers are known to be finite, and residuals may change.

bool encode_blocks_as_int8(std::size_t block, compensated_numbers all, std::span<std::byte> scales,
                           std::span<std::byte> multiples) {
  for (std::size_t begin = 0, at = 0; begin < all.x.size(); begin += block, at += 4) {
    const compensated_numbers b = all.block(begin, block);
    const float scale = int8_scale(host_stream{}, b.x, b.residual);
    if (std::isnan(scale)) return false;
    put_float(scales, at, scale);
  }
  auto* to = reinterpret_cast<std::int8_t*>(multiples.data());
  for (std::size_t begin = 0, at = 0; begin < all.x.size(); begin += block, at += 4) {
    const compensated_numbers b = all.block(begin, block);
    encode_int8(host_stream{}, b.x, b.residual, float_at(scales, at), {to + begin, b.x.size()});
  }
  return true;
}

bool encode_blocks_as_signs(std::size_t block, compensated_numbers all, std::span<std::byte> means,
                            std::span<std::byte> signs) {
  for (std::size_t begin = 0, at = 0; begin < all.x.size(); begin += block, at += 8) {
    const compensated_numbers b = all.block(begin, block);
    const sign_means m = means_of_signs(host_stream{}, b.x, b.residual);
    if (!std::isfinite(m.negative) || !std::isfinite(m.other)) return false;
    put_float(means, at, m.negative);
    put_float(means, at + 4, m.other);
  }
  for (std::size_t begin = 0, at = 0; begin < all.x.size(); begin += block, at += 8) {
    const compensated_numbers b = all.block(begin, block);
    const sign_means m{float_at(means, at), float_at(means, at + 4)};
    encode_signs(host_stream{}, b.x, b.residual, m, signs.subspan(begin / 8, (b.x.size() + 7) / 8));
  }
  return true;
}

bool encode_the_largest(std::size_t count, compensated_numbers all, std::span<std::byte> places,
                        std::span<std::byte> values) {
  if (count == 0) return true;
  const auto cut = cut_of_largest(host_stream{}, all.x, all.residual, count);
  if (!cut) return false;
  encode_largest(host_stream{}, all.x, all.residual, *cut, places, values);
  return true;
}

void require_encodable(const wire_format& f, const wire_layout& layout, compensated_numbers all,
                       std::size_t bytes) {
  if (!all.residual.empty() && !is_lossy(f)) throw shape_error(to_string(f) + " takes no residual");
  if (!all.residual.empty() && all.residual.size() != all.x.size())
    throw shape_error(
        fmt::format("{}: {} numbers with a residual of {}", to_string(f), all.x.size(), all.residual.size()));
  if (bytes != layout.bytes())
    throw shape_error(fmt::format("{}: {} numbers take {} bytes; there is room for {}", to_string(f),
                                  all.x.size(), layout.bytes(), bytes));
}

using message_bytes = std::span<const std::byte>;

[[noreturn]] void refuse_numbers(const wire_format& f, std::string_view why) {
  throw wire_error(fmt::format("{} message: {}", to_string(f), why));
}

void require_header(const wire_format& f, const wire_header& expected, message_bytes from) {
  if (from.size() < wire_header::bytes)
    refuse_numbers(f,
                   fmt::format("expected a header of {} bytes, found {}", wire_header::bytes, from.size()));
  const std::uint32_t encoding = static_cast<std::uint8_t>(expected.encoding);
  if (whole_at(from, 0) != encoding)
    refuse_numbers(f, fmt::format("expected encoding {}, found {}", encoding, whole_at(from, 0)));
  if (whole_at(from, 4) != expected.count)
    refuse_numbers(f, fmt::format("expected {} numbers, found {}", expected.count, whole_at(from, 4)));
  const std::string_view what = f.encoding == wire_encoding::top_k ? "places" : "numbers a block";
  if (whole_at(from, 8) != expected.setting)
    refuse_numbers(f, fmt::format("expected {} {}, found {}", expected.setting, what, whole_at(from, 8)));
}

void require_finite_floats(const wire_format& f, std::string_view what, message_bytes from) {
  for (std::size_t at = 0; at < from.size(); at += 4)
    if (!std::isfinite(float_at(from, at)))
      refuse_numbers(f, fmt::format("expected {} that are finite, found {} as number {}", what,
                                    float_at(from, at), at / 4));
}

/// A scale of at most a 127th of the largest float, so that no multiple is infinite.
void require_scales(const wire_format& f, message_bytes from) {
  for (std::size_t at = 0; at < from.size(); at += 4)
    if (const float scale = float_at(from, at); !(scale >= 0 && std::isfinite(scale * 127)))
      refuse_numbers(f, fmt::format("expected scales from 0 on, found {} as number {}", scale, at / 4));
}

void require_multiples(const wire_format& f, message_bytes from) {
  unsigned found = 0;
#pragma omp simd reduction(| : found)
  for (std::size_t i = 0; i < from.size(); ++i) found |= from[i] == std::byte{0x80} ? 1U : 0U;
  if (found != 0)
    refuse_numbers(f, fmt::format("expected multiples from -127 on, found -128 as number {}",
                                  std::ranges::find(from, std::byte{0x80}) - from.begin()));
}

void require_places(const wire_format& f, std::uint32_t count, message_bytes from) {
  std::uint64_t least = 0;
  for (std::size_t at = 0; at < from.size(); at += 4) {
    const std::uint32_t place = whole_at(from, at);
    if (place < least || place >= count)
      refuse_numbers(
          f, fmt::format("expected ascending places from {} to {}, found {}", least, count - 1, place));
    least = std::uint64_t{place} + 1;
  }
}

void require_no_more_signs(const wire_format& f, std::uint32_t count, message_bytes from) {
  if (count % 8 != 0 && (static_cast<unsigned>(from.back()) >> count % 8) != 0)
    refuse_numbers(f, fmt::format("expected {} signs, found bits behind them", count));
}

void require_content(const wire_format& f, std::uint32_t count, message_bytes first, message_bytes second) {
  switch (f.encoding) {
  case wire_encoding::float32:
  case wire_encoding::float16:
  case wire_encoding::bfloat16:
    return; // every bit pattern is a number, an infinity or a NaN
  case wire_encoding::int8:
    require_scales(f, first);
    return require_multiples(f, second);
  case wire_encoding::top_k:
    require_places(f, count, first);
    return require_finite_floats(f, "numbers", second);
  case wire_encoding::one_bit:
    require_finite_floats(f, "means", first);
    return require_no_more_signs(f, count, second);
  }
}

void decode_int8_blocks(std::size_t block, message_bytes scales, message_bytes multiples,
                        std::span<float> to) {
  const auto* from = reinterpret_cast<const std::int8_t*>(multiples.data());
  for (std::size_t begin = 0, at = 0; begin < to.size(); begin += block, at += 4) {
    const std::span<float> part = to.subspan(begin, std::min(block, to.size() - begin));
    decode_int8(host_stream{}, {from + begin, part.size()}, float_at(scales, at), part);
  }
}

void decode_sign_blocks(std::size_t block, message_bytes means, message_bytes signs, std::span<float> to) {
  for (std::size_t begin = 0, at = 0; begin < to.size(); begin += block, at += 8) {
    const std::span<float> part = to.subspan(begin, std::min(block, to.size() - begin));
    decode_signs(host_stream{}, signs.subspan(begin / 8, (part.size() + 7) / 8),
                 {float_at(means, at), float_at(means, at + 4)}, part);
  }
}

constexpr std::size_t row_header_bytes = 8;

/// A row's number is an int32, of which the negative ones end a list.
constexpr std::size_t most_rows = std::numeric_limits<std::int32_t>::max();

void require_encodable_rows(const wire_format& f, const gradient_rows& listed, const table_extent& table,
                            std::span<const float> residual, std::size_t bytes) {
  if (listed.width != table.width)
    throw shape_error(
        fmt::format("{} rows: width {} of a table of width {}", to_string(f), listed.width, table.width));
  if (!residual.empty() && residual.size() != table.rows * table.width)
    throw shape_error(fmt::format("{} rows: a table of {} rows of {} with a residual of {}", to_string(f),
                                  table.rows, table.width, residual.size()));
  if (!residual.empty() && !is_lossy(f)) throw shape_error(to_string(f) + " rows take no residual");
  for (const std::int32_t row : listed.rows)
    if (static_cast<std::size_t>(row) >= table.rows)
      throw shape_error(fmt::format("{} rows: row {} of a table of {} rows", to_string(f), row, table.rows));
  if (const std::size_t needed = encoded_row_bytes(f, listed.rows.size(), table.width); bytes != needed)
    throw shape_error(fmt::format("{} rows: {} rows take {} bytes; there is room for {}", to_string(f),
                                  listed.rows.size(), needed, bytes));
}

void write_row_numbers(const gradient_rows& listed, std::span<std::byte> to) {
  put_whole(to, 0, static_cast<std::uint32_t>(listed.rows.size()));
  put_whole(to, 4, static_cast<std::uint32_t>(listed.width));
  if (!listed.rows.empty())
    std::memcpy(to.data() + row_header_bytes, listed.rows.data(), listed.rows.size_bytes());
}

std::span<float> row_of(std::span<float> table, std::int32_t row, std::size_t width) {
  return table.subspan(static_cast<std::size_t>(row) * width, width);
}

/// Takes the residuals out of their rows, so that a row that comes again finds none.
void take_residuals(const gradient_rows& listed, std::span<float> residual, std::span<float> to) {
  for (std::size_t i = 0; i < listed.rows.size(); ++i) {
    const std::span<float> row = row_of(residual, listed.rows[i], listed.width);
    std::ranges::copy(row, to.subspan(i * listed.width).begin());
    std::ranges::fill(row, 0.0F);
  }
}

void put_back(const gradient_rows& listed, std::span<const float> rest, std::span<float> residual) {
  for (std::size_t i = 0; i < listed.rows.size(); ++i) {
    const std::span<float> row = row_of(residual, listed.rows[i], listed.width);
    for (std::size_t c = 0; c < listed.width; ++c) row[c] += rest[i * listed.width + c];
  }
}

[[noreturn]] void refuse_rows(const wire_format& f, std::string_view why) {
  throw wire_error(fmt::format("{} rows message: {}", to_string(f), why));
}

/// The number of rows that the bytes hold, if they hold them all.
std::size_t checked_row_count(const wire_format& f, std::span<const std::byte> from,
                              const table_extent& table) {
  if (from.size() < row_header_bytes)
    refuse_rows(f, fmt::format("expected a header of {} bytes, found {}", row_header_bytes, from.size()));
  const std::size_t count = whole_at(from, 0);
  if (whole_at(from, 4) != table.width)
    refuse_rows(f, fmt::format("expected rows of {} values, found {}", table.width, whole_at(from, 4)));
  if (count > (from.size() - row_header_bytes) / 4)
    refuse_rows(f, fmt::format("expected {} rows, found {} bytes", count, from.size()));
  if (table.width > 0 && count > std::numeric_limits<std::uint32_t>::max() / table.width)
    refuse_rows(f, fmt::format("expected fewer than 2^32 values, found {} rows of {}", count, table.width));
  if (const std::size_t needed = encoded_row_bytes(f, count, table.width); from.size() != needed)
    refuse_rows(f, fmt::format("expected {} bytes for {} rows, found {}", needed, count, from.size()));
  for (std::size_t i = 0; i < count; ++i)
    if (const std::uint32_t row = whole_at(from, row_header_bytes + 4 * i);
        row >= table.rows || row > most_rows)
      refuse_rows(f, fmt::format("expected rows of a table of {}, found row {}", table.rows, row));
  return count;
}

} // namespace

std::size_t encoded_bytes(const wire_format& f, std::size_t count) { return wire_layout(f, count).bytes(); }

bool encode_numbers(const wire_format& f, std::span<const float> x, std::span<float> residual,
                    std::span<std::byte> to) {
  const wire_layout layout(f, x.size());
  const compensated_numbers all{x, residual};
  require_encodable(f, layout, all, to.size());
  write_header(layout.header, to);
  const std::span<std::byte> first = layout.first_of(to), second = layout.second_of(to);
  switch (f.encoding) {
  case wire_encoding::float32:
    if (!x.empty()) std::memcpy(second.data(), x.data(), second.size());
    return true;
  case wire_encoding::float16:
    encode_float16(host_stream{}, x, residual, second);
    return true;
  case wire_encoding::bfloat16:
    encode_bfloat16(host_stream{}, x, residual, second);
    return true;
  case wire_encoding::int8:
    return encode_blocks_as_int8(f.block, all, first, second);
  case wire_encoding::top_k:
    return encode_the_largest(layout.header.setting, all, first, second);
  case wire_encoding::one_bit:
    return encode_blocks_as_signs(f.block, all, first, second);
  }
  return true;
}

void decode_numbers(const wire_format& f, message_bytes from, std::span<float> to) {
  const wire_layout layout(f, to.size());
  require_header(f, layout.header, from);
  if (from.size() != layout.bytes())
    refuse_numbers(
        f, fmt::format("expected {} bytes for {} numbers, found {}", layout.bytes(), to.size(), from.size()));
  const message_bytes first = layout.first_of(from), second = layout.second_of(from);
  require_content(f, layout.header.count, first, second);
  switch (f.encoding) {
  case wire_encoding::float32:
    if (!to.empty()) std::memcpy(to.data(), second.data(), second.size());
    return;
  case wire_encoding::float16:
    return decode_float16(host_stream{}, second, to);
  case wire_encoding::bfloat16:
    return decode_bfloat16(host_stream{}, second, to);
  case wire_encoding::int8:
    return decode_int8_blocks(f.block, first, second, to);
  case wire_encoding::top_k:
    return decode_largest(host_stream{}, first, second, to);
  case wire_encoding::one_bit:
    return decode_sign_blocks(f.block, first, second, to);
  }
}

std::size_t encoded_row_bytes(const wire_format& f, std::size_t rows, std::size_t width) {
  if (rows > most_rows || (rows > 0 && width > std::numeric_limits<std::uint32_t>::max() / rows))
    throw shape_error(
        fmt::format("{} rows: {} rows of {} are more than 32 bits can count; send them in parts",
                    to_string(f), rows, width));
  return row_header_bytes + 4 * rows + encoded_bytes(f, rows * width);
}

bool encode_rows(const wire_format& f, const gradient_rows& part, const table_extent& table,
                 std::span<float> residual, std::vector<float>& scratch, std::span<std::byte> to) {
  if (part.values.size() < part.rows.size() * part.width)
    throw shape_error(fmt::format("{} rows: {} rows of {} with {} values", to_string(f), part.rows.size(),
                                  part.width, part.values.size()));
  const gradient_rows listed = listed_rows(part);
  require_encodable_rows(f, listed, table, residual, to.size());
  write_row_numbers(listed, to);
  const std::span<std::byte> values = to.subspan(row_header_bytes + 4 * listed.rows.size());
  if (residual.empty() || listed.values.empty()) return encode_numbers(f, listed.values, {}, values);
  scratch.resize(listed.values.size());
  take_residuals(listed, residual, scratch);
  const bool finite = encode_numbers(f, listed.values, scratch, values);
  put_back(listed, scratch, residual);
  return finite;
}

void decode_rows(const wire_format& f, std::span<const std::byte> from, const table_extent& table,
                 decoded_rows& to) {
  to.rows.clear();
  const std::size_t count = checked_row_count(f, from, table);
  to.values.resize(count * table.width);
  decode_numbers(f, from.subspan(row_header_bytes + 4 * count), to.values);
  to.rows.resize(count);
  if (count > 0) std::memcpy(to.rows.data(), from.data() + row_header_bytes, 4 * count);
}

} // namespace mailgrad
