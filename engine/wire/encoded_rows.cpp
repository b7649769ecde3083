#include <mailgrad/engine/wire/encoded_rows.hpp>

#include <mailgrad/engine/wire/encoded_numbers.hpp>
#include <mailgrad/engine/wire/wire_layout.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace mailgrad {

namespace {

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
