#pragma once

#include <mailgrad/files/archive.hpp>
#include <mailgrad/graph/parameter_layout.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace mailgrad {

/// The ranges of the dense part of the weights for which a gradient has values, ascending and not adjacent.
using coverage = std::vector<shard_range>;

/// The coverage of these variables, given by index; those with sparse gradients cover nothing. Null if they
/// cover all of the dense part.
std::shared_ptr<const coverage> coverage_of(const parameter_layout& layout,
                                            std::span<const std::size_t> variables);

/// The parts of `ranges` that lie in `within`.
std::vector<shard_range> overlaps(std::span<const shard_range> ranges, const shard_range& within);

/// The ranges of `covered`, or `all` where it is null.
inline std::span<const shard_range> ranges_of(const std::shared_ptr<const coverage>& covered,
                                              const shard_range& all) {
  return covered ? std::span(*covered) : std::span(&all, 1);
}

/// Whether the floats of `part` are covered. No range of `covered` may begin or end inside `part`.
bool covers(const std::shared_ptr<const coverage>& covered, const shard_range& part);

/// Writes or reads ranges, for checkpoints.
///
/// Errors  archive_error: a range ends before it begins.
void keep_ranges(archive& a, std::string_view name, coverage& ranges);
void keep_ranges(archive& a, std::string_view name, std::shared_ptr<const coverage>& covered);

} // namespace mailgrad
