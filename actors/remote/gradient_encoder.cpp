#include <mailgrad/actors/remote/gradient_encoder.hpp>

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace mailgrad::remote {

namespace {

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
}

/// The rows and the width of a variable that is a table.
table_extent extent_of(const placed_variable& table) {
  const std::size_t rows = table.dims.rank() > 0 ? table.dims[0] : 1;
  return {rows, table.dims.size() / rows};
}

} // namespace

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

bool adds_nothing(const dense_addend& a) { return a.covered && a.covered->empty(); }

shard_range dense_range_of(const parameter_layout& layout, std::uint32_t shard) {
  const shard_range all = layout.shard(shard);
  const std::size_t dense = layout.dense_size();
  return {std::min(all.begin, dense), std::min(all.end, dense)};
}

gradient_encoder::gradient_encoder(wire_format f, std::shared_ptr<const parameter_layout> layout)
    : format_(f), layout_(std::move(layout)), lines_(layout_->shard_count()) {
  for (std::uint32_t s = 0; s < lines_.size(); ++s)
    lines_[s].dense.emplace(format_, dense_range_of(*layout_, s).size());
}

std::optional<gradient_encoder::messages> gradient_encoder::encode(std::uint32_t shard, step_number step,
                                                                   std::span<const float> dense,
                                                                   std::span<const gradient_rows> tables) {
  const std::lock_guard lock(mutex_);
  line& l = lines_.at(shard);
  settle(l);
  if (!all_finite(dense)) return std::nullopt;
  for (const gradient_rows& part : tables)
    if (!all_finite(part.values)) return std::nullopt;
  messages sent{l.dense->send(step, dense), {}};
  for (const gradient_rows& part : tables) {
    const auto [kept, is_new] =
        l.tables.try_emplace(part.variable, format_, extent_of(layout_->variables().at(part.variable)));
    sent.tables.emplace_back(part.variable, kept->second.send(step, part));
  }
  l.under_way = step;
  return sent;
}

std::optional<gradient_encoder::messages> gradient_encoder::encode(std::uint32_t shard,
                                                                   const push_gradient& x) {
  const gradient& g = *x.payload.values;
  if (g.covered || !std::ranges::all_of(g.addends, adds_nothing)) return std::nullopt;
  const float scale = std::bit_cast<float>(x.header.scale_bits);
  const shard_range range = dense_range_of(*layout_, shard);
  std::vector<float> dense(range.size());
  std::ranges::transform(g.dense.on_host<float>().subspan(range.begin, range.size()), dense.begin(),
                         [scale](float v) { return v * scale; });
  std::vector<rows_of_shard> rows;
  for (const gradient_rows& part : g.sparse) {
    rows.push_back(rows_in(*layout_, part, shard));
    for (float& v : rows.back().values) v *= scale;
  }
  std::vector<gradient_rows> tables;
  for (std::size_t i = 0; i < rows.size(); ++i)
    tables.push_back({g.sparse[i].variable, g.sparse[i].width, rows[i].rows, rows[i].values});
  return encode(shard, x.header.id.step, dense, tables);
}

void gradient_encoder::answered(std::uint32_t shard, step_number discarded) {
  const std::lock_guard lock(mutex_);
  line& l = lines_.at(shard);
  if (!l.under_way || *l.under_way != discarded)
    return; // it was taken, of which the next gradient is the proof
  l.dense->give_back(discarded);
  for (auto& [variable, kept] : l.tables)
    if (kept.in_flight() > 0) kept.give_back(discarded);
  l.under_way.reset();
}

/// The worker goes on, so the shard has taken its last gradient.
void gradient_encoder::settle(line& l) {
  if (!l.under_way) return;
  l.dense->applied(*l.under_way);
  for (auto& [variable, kept] : l.tables)
    if (kept.in_flight() > 0) kept.applied(*l.under_way);
  l.under_way.reset();
}

} // namespace mailgrad::remote
