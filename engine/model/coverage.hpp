#pragma once

#include <mailgrad/graph/parameter_layout.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace mailgrad {

/// What of the dense part of a flat vector a gradient is about: ranges that ascend and do not touch.
using coverage = std::vector<shard_range>;

/// Of these variables, by index; those with sparse gradients cover nothing. Null if they cover all of the
/// dense part.
std::shared_ptr<const coverage> coverage_of(const parameter_layout& layout,
                                            std::span<const std::size_t> variables);

/// The ranges of `covered`, or `all` where it is null.
inline std::span<const shard_range> ranges_of(const std::shared_ptr<const coverage>& covered,
                                              const shard_range& all) {
  return covered ? std::span(*covered) : std::span(&all, 1);
}

/// Whether floats begin to end - 1, which no range begins or ends in the midst of, are covered.
bool covers(const std::shared_ptr<const coverage>& covered, const shard_range& part);

} // namespace mailgrad
