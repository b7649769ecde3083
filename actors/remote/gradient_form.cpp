#include <mailgrad/actors/remote/gradient_form.hpp>

#include <mailgrad/engine/wire/encoded_rows.hpp>
#include <mailgrad/engine/wire/wire_error.hpp>
#include <mailgrad/files/byte_archive.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace mailgrad::remote {

namespace {

constexpr wire_format exact{};

/// Whether the dense values alone are all that a shard needs.
bool is_plain(const push_gradient& x) {
  const gradient& g = *x.payload.values;
  return !g.covered && g.addends.empty() && g.sparse.empty() && !x.payload.read;
}

table_extent extent_of(const placed_variable& table) {
  const std::size_t rows = table.dims.rank() > 0 ? table.dims[0] : 1;
  return {rows, table.dims.size() / rows};
}

/// The rows of a table that lie in one shard, in their order.
struct rows_of_shard {
  std::vector<std::int32_t> rows;
  std::vector<float> values;
};

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

std::string encoded(const parameter_layout& layout, const gradient_rows& part, std::uint32_t shard) {
  const rows_of_shard chosen = rows_in(layout, part, shard);
  const gradient_rows listed{part.variable, part.width, chosen.rows, chosen.values};
  std::string bytes(encoded_row_bytes(exact, chosen.rows.size(), part.width), '\0');
  std::vector<float> scratch;
  const bool whole = encode_rows(exact, listed, extent_of(layout.variables()[part.variable]), {}, scratch,
                                 std::as_writable_bytes(std::span(bytes)));
  if (!whole) throw std::logic_error("gradient: float32 refused a number");
  return bytes;
}

} // namespace

gradient_form::gradient_form(exchange_terms terms) : terms_(std::move(terms)) {
  for (std::size_t s = 0; s < terms_.layout->shard_count(); ++s)
    gradients_.emplace_back([layout = terms_.layout] { return make_gradient(*layout); });
}

shard_range gradient_form::dense_range(std::uint32_t shard) const {
  const shard_range all = terms_.layout->shard(shard);
  const std::size_t dense = terms_.layout->dense_size();
  return {std::min(all.begin, dense), std::min(all.end, dense)};
}

attached gradient_form::write(const caf::message& m, const actor_address& to, field_inspector& fields) {
  const auto& x = m.get_as<push_gradient>(0);
  gradient_header header = x.header;
  header.times.wire = terms_.clock->take(to.number);
  bool plain = is_plain(x);
  fields.field("header", header);
  fields.field("plain", plain);
  terms_.clock->begin(to.number, terms_.time->now());
  if (!plain) return pack(x, to.number);
  const shard_range range = dense_range(to.number);
  return {std::as_bytes(x.payload.values->dense.as<float>().subspan(range.begin, range.size())),
          x.payload.values};
}

attached gradient_form::pack(const push_gradient& x, std::uint32_t shard) const {
  const gradient& g = *x.payload.values;
  const shard_range range = dense_range(shard);
  byte_archive_writer a;
  std::shared_ptr<const coverage> covered = g.covered;
  keep_ranges(a, "covered", covered);
  const std::vector<float> summed = g.addends.empty() ? std::vector<float>() : whole_dense(g);
  const std::span<const float> dense = g.addends.empty() ? g.dense.as<float>() : std::span(summed);
  a.hold("dense", nullptr, dense.subspan(range.begin, range.size()));
  std::size_t tables = g.sparse.size();
  a.field("tables", tables);
  for (const gradient_rows& part : g.sparse) {
    std::size_t variable = part.variable;
    std::string rows = encoded(*terms_.layout, part, shard);
    a.field("variable", variable);
    a.field("rows", rows);
  }
  a.hold("read", nullptr, x.payload.read ? x.payload.read.on_host() : std::span<const float>());
  const auto bytes = std::make_shared<const std::string>(a.bytes());
  return {std::as_bytes(std::span(*bytes)), bytes};
}

void gradient_form::unpack(const std::string& bytes, std::uint32_t shard, gradient& into,
                           snapshot& read) const {
  byte_archive_reader a(bytes, "gradient");
  const shard_range range = dense_range(shard);
  keep_ranges(a, "covered", into.covered);
  a.floats("dense", into.dense.as<float>().subspan(range.begin, range.size()));
  std::size_t tables = 0;
  a.field("tables", tables);
  for (std::size_t i = 0; i < tables; ++i) {
    std::size_t variable = 0;
    std::string rows;
    a.field("variable", variable);
    a.field("rows", rows);
    if (variable >= terms_.layout->variables().size() || !terms_.layout->variables()[variable].sparse)
      throw archive_error(fmt::format("gradient: variable {} is no table", variable));
    const table_extent extent = extent_of(terms_.layout->variables()[variable]);
    const auto decoded = std::make_shared<decoded_rows>();
    try {
      decode_rows(exact, std::as_bytes(std::span(rows)), extent, *decoded);
    } catch (const wire_error& e) {
      throw archive_error(e.what());
    }
    into.sparse.push_back({variable, extent.width, decoded->rows, decoded->values});
    into.held.push_back(decoded);
  }
  const std::span<const float> weights = a.array("read").values;
  if (!weights.empty()) {
    if (weights.size() != terms_.layout->shard(shard).size())
      throw archive_error(fmt::format("gradient: expected {} weights, found {}",
                                      terms_.layout->shard(shard).size(), weights.size()));
    block copy(weights.size_bytes());
    std::memcpy(copy.data(), weights.data(), weights.size_bytes());
    read = snapshot(std::make_shared<memory>(std::move(copy)));
  }
  a.require_end();
}

void gradient_form::require_ours(const gradient_id& id, std::uint32_t shard) const {
  if (shard >= gradients_.size())
    throw archive_error(
        fmt::format("gradient: expected a shard from 0 to {}, found {}", gradients_.size() - 1, shard));
  if (id.worker != terms_.worker || id.life != terms_.life)
    throw archive_error(fmt::format("gradient: expected one of worker {} (life {}), found one of worker {} "
                                    "(life {})",
                                    terms_.worker.value, terms_.life.value, id.worker.value, id.life.value));
}

arriving gradient_form::begin(field_inspector& fields, const actor_address&, const actor_address& to,
                              std::uint64_t size) {
  gradient_header header;
  bool plain = false;
  fields.field("header", header);
  fields.field("plain", plain);
  require_ours(header.id, to.number);
  const auto into = gradients_[to.number].take();
  into->covered.reset();
  into->sparse.clear();
  into->held.clear();
  if (!plain) {
    const auto bytes = std::make_shared<std::string>(size, '\0');
    return {std::as_writable_bytes(std::span(*bytes)), [this, header, to, into, bytes] {
              snapshot read;
              unpack(*bytes, to.number, *into, read);
              return arrive(header, to.number, into, std::move(read));
            }};
  }
  const shard_range range = dense_range(to.number);
  const std::span<float> place = into->dense.as<float>().subspan(range.begin, range.size());
  if (place.size_bytes() != size)
    throw archive_error(fmt::format("gradient for shard {}: expected {} bytes, found {}", to.number,
                                    place.size_bytes(), size));
  return {std::as_writable_bytes(place),
          [this, header, to, into] { return arrive(header, to.number, into, {}); }};
}

caf::message gradient_form::arrive(const gradient_header& header, std::uint32_t shard,
                                   std::shared_ptr<const gradient> values, snapshot read) const {
  const instant now = terms_.time->now();
  terms_.clock->begin(shard, now);
  return caf::make_message(push_gradient{header, {std::move(values), std::move(read), now}});
}

} // namespace mailgrad::remote
