#include <mailgrad/actors/remote/gradient_encoder.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace mailgrad::remote {

namespace {

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float x) { return std::isfinite(x); });
}

} // namespace

shard_range dense_range_of(const parameter_layout& layout, std::uint32_t shard) {
  const shard_range all = layout.shard(shard);
  const std::size_t dense = layout.dense_size();
  return {std::min(all.begin, dense), std::min(all.end, dense)};
}

table_extent extent_of(const placed_variable& table) {
  const std::size_t rows = table.dims.rank() > 0 ? table.dims[0] : 1;
  return {rows, table.dims.size() / rows};
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
