#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/optim/clip.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mailgrad {

std::shared_ptr<const coverage> coverage_of(const parameter_layout& layout,
                                            std::span<const std::size_t> variables) {
  std::vector<std::size_t> sorted(variables.begin(), variables.end());
  std::ranges::sort(sorted);
  coverage found;
  for (const std::size_t v : sorted) {
    const placed_variable& variable = layout.variables().at(v);
    if (variable.sparse) continue;
    const bool last = v + 1 == layout.variables().size() || layout.variables()[v + 1].sparse;
    const shard_range range{variable.offset, last ? layout.dense_size() : layout.variables()[v + 1].offset};
    if (!found.empty() && found.back().end == range.begin)
      found.back().end = range.end;
    else
      found.push_back(range);
  }
  if (layout.dense_size() == 0) return nullptr;
  if (found.size() == 1 && found[0].size() == layout.dense_size()) return nullptr;
  return std::make_shared<const coverage>(std::move(found));
}

bool covers(const std::shared_ptr<const coverage>& covered, const shard_range& part) {
  if (!covered) return true;
  const auto after = std::ranges::upper_bound(*covered, part.begin, {}, &shard_range::begin);
  return after != covered->begin() && (after - 1)->end >= part.end;
}

void keep_ranges(archive& a, std::string_view name, coverage& ranges) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ends;
  for (const shard_range& r : ranges) ends.emplace_back(r.begin, r.end);
  a.field(name, ends);
  if (!a.reads()) return;
  ranges.clear();
  for (const auto& [begin, end] : ends) {
    if (begin > end) throw archive_error(std::string(name) + ": a range ends before it begins");
    ranges.push_back({begin, end});
  }
}

void keep_ranges(archive& a, std::string_view name, std::shared_ptr<const coverage>& covered) {
  bool all = covered == nullptr;
  coverage ranges = covered ? *covered : coverage();
  a.field("whole " + std::string(name), all);
  keep_ranges(a, name, ranges);
  if (a.reads()) covered = all ? nullptr : std::make_shared<const coverage>(std::move(ranges));
}

coverage joined_ranges(coverage ranges) {
  std::ranges::sort(ranges, {}, &shard_range::begin);
  coverage all;
  for (const shard_range& r : ranges)
    if (all.empty() || all.back().end < r.begin)
      all.push_back(r);
    else
      all.back().end = std::max(all.back().end, r.end);
  return all;
}

std::vector<table_piece> pieces_of_table(const parameter_layout& layout, std::size_t variable) {
  std::vector<table_piece> all;
  const placed_variable& placed = layout.variables()[variable];
  if (!placed.sparse) return all;
  const std::size_t width = placed.dims.size() / placed.dims[0];
  const auto row = [&](std::size_t offset) { return static_cast<std::int32_t>(offset / width); };
  for (const variable_piece& p : layout.pieces(variable))
    all.push_back({variable, width, p.shard, p.offset_in_shard, placed.offset + p.offset_in_variable,
                   row(p.offset_in_variable), row(p.offset_in_variable + p.length)});
  return all;
}

gradient_rows listed_rows(const gradient_rows& part) {
  const auto end = std::ranges::find_if(part.rows, [](std::int32_t row) { return row < 0; });
  const auto count = static_cast<std::size_t>(end - part.rows.begin());
  return {part.variable, part.width, part.rows.first(count), part.values.first(count * part.width)};
}

std::vector<float> whole_dense(const gradient& g) {
  const std::span<const float> first = g.dense.on_host<float>();
  std::vector<float> whole(first.begin(), first.end());
  const shard_range all{0, whole.size()}; // it must outlive the loop, which may point to it
  for (const dense_addend& further : g.addends)
    for (const shard_range& r : ranges_of(further.covered, all)) {
      if (r.end > whole.size() || r.end > further.values.bytes() / sizeof(float))
        throw shape_error(fmt::format("gradient: an addend of {} weights covers {} of {}",
                                      further.values.bytes() / sizeof(float), r.end, whole.size()));
      for (std::size_t i = r.begin; i < r.end; ++i) whole[i] += further.values.as<float>()[i];
    }
  return whole;
}

double squared_norm(const gradient& g) {
  double squares = sum_of_squares(host_stream{}, g.dense.on_host<float>());
  for (const gradient_rows& part : g.sparse)
    squares += sum_of_squares(host_stream{}, listed_rows(part).values);
  return squares;
}

std::shared_ptr<gradient> make_gradient(const parameter_layout& layout, const block_source& blocks) {
  auto made = std::make_shared<gradient>();
  const std::size_t bytes = layout.dense_size() * sizeof(float);
  made->dense = memory(blocks ? blocks(bytes) : block(bytes));
  return made;
}

void row_join::begin(std::size_t variable) noexcept {
  variable_ = variable;
  rows_ = {};
  values_ = {};
  joined_rows_.clear();
  joined_values_.clear();
}

void row_join::add(const gradient_rows& part, float scale) {
  const auto [variable, width, rows, values] = listed_rows(part);
  if (rows.empty()) return;
  if (rows_.empty() && scale == 1) {
    rows_ = rows;
    values_ = values;
    return;
  }
  if (joined_rows_.empty()) copy(rows_, values_, 1); // copies the first list, which was read in place so far
  copy(rows, values, scale);
  rows_ = joined_rows_;
  values_ = joined_values_;
}

} // namespace mailgrad
