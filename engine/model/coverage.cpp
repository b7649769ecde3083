#include <mailgrad/engine/model/coverage.hpp>

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

std::vector<shard_range> overlaps(std::span<const shard_range> ranges, const shard_range& within) {
  std::vector<shard_range> inside;
  for (const shard_range& r : ranges)
    if (r.begin < within.end && r.end > within.begin)
      inside.push_back({std::max(r.begin, within.begin), std::min(r.end, within.end)});
  return inside;
}

} // namespace mailgrad
