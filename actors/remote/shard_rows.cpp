#include <mailgrad/actors/remote/shard_rows.hpp>

#include <mailgrad/actors/remote/gradient_encoder.hpp>
#include <mailgrad/engine/wire/encoded_rows.hpp>
#include <mailgrad/engine/wire/wire_error.hpp>
#include <mailgrad/engine/wire/wire_format.hpp>
#include <mailgrad/files/archive.hpp>

#include <fmt/format.h>

#include <memory>
#include <span>
#include <stdexcept>

namespace mailgrad::remote {

rows_of_shard rows_in(const parameter_layout& layout, const gradient_rows& part, std::uint32_t shard) {
  const gradient_rows all = listed_rows(part);
  rows_of_shard chosen;
  for (const variable_piece& piece : layout.pieces(all.variable)) {
    if (piece.shard != shard) continue;
    const std::size_t first = piece.offset_in_variable / all.width;
    const std::size_t end = (piece.offset_in_variable + piece.length) / all.width;
    for (std::size_t i = 0; i < all.rows.size(); ++i) {
      const auto row = static_cast<std::size_t>(all.rows[i]);
      if (row < first || row >= end) continue;
      chosen.rows.push_back(all.rows[i]);
      const auto values = all.values.subspan(i * all.width, all.width);
      chosen.values.insert(chosen.values.end(), values.begin(), values.end());
    }
  }
  return chosen;
}

std::string encoded_rows_of(const parameter_layout& layout, const gradient_rows& part, std::uint32_t shard) {
  const rows_of_shard chosen = rows_in(layout, part, shard);
  const gradient_rows listed{part.variable, part.width, chosen.rows, chosen.values};
  std::string bytes(encoded_row_bytes(wire_format{}, chosen.rows.size(), part.width), '\0');
  std::vector<float> scratch;
  const bool whole = encode_rows(wire_format{}, listed, extent_of(layout.variables()[part.variable]), {},
                                 scratch, std::as_writable_bytes(std::span(bytes)));
  if (!whole) throw std::logic_error("gradient: float32 refused a number");
  return bytes;
}

void decode_table(const wire_format& format, const parameter_layout& layout, std::size_t variable,
                  std::string_view rows, gradient& into) {
  if (variable >= layout.variables().size() || !layout.variables()[variable].sparse)
    throw archive_error(fmt::format("gradient: variable {} is no table", variable));
  const table_extent extent = extent_of(layout.variables()[variable]);
  const auto decoded = std::make_shared<decoded_rows>();
  try {
    decode_rows(format, std::as_bytes(std::span(rows)), extent, *decoded);
  } catch (const wire_error& e) {
    throw archive_error(e.what());
  }
  into.sparse.push_back({variable, extent.width, decoded->rows, decoded->values});
  into.held.push_back(decoded);
}

} // namespace mailgrad::remote
