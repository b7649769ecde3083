#include <mailgrad/graph/program/memory_plan.hpp>

#include <mailgrad/tensor/block.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

namespace mailgrad {

namespace {

bool alive_together(const lifetime& a, const lifetime& b) { return a.first <= b.last && b.first <= a.last; }

/// Returns the offset of the smallest gap between values of `placed`, sorted by offset, that is large enough;
/// without one, the end.
std::size_t best_gap(const std::vector<lifetime>& all, const std::vector<std::size_t>& offsets,
                     const std::vector<std::size_t>& placed, const lifetime& wanted) {
  std::size_t best = 0;
  std::size_t best_size = std::numeric_limits<std::size_t>::max();
  std::size_t end = 0;
  for (const std::size_t other : placed) {
    if (!alive_together(all[other], wanted)) continue;
    const std::size_t gap = offsets[other] > end ? offsets[other] - end : 0;
    if (gap >= aligned(wanted.bytes) && gap < best_size) {
      best = end;
      best_size = gap;
    }
    end = std::max(end, offsets[other] + aligned(all[other].bytes));
  }
  return best_size == std::numeric_limits<std::size_t>::max() ? end : best;
}

} // namespace

memory_plan plan_memory(const std::vector<lifetime>& lifetimes) {
  std::vector<std::size_t> by_size(lifetimes.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::ranges::stable_sort(by_size, std::greater<>{}, [&](std::size_t i) { return lifetimes[i].bytes; });

  memory_plan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<std::size_t> placed; // sorted by offset
  for (const std::size_t i : by_size) {
    plan.offsets[i] = best_gap(lifetimes, plan.offsets, placed, lifetimes[i]);
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + aligned(lifetimes[i].bytes));
    const auto position =
        std::ranges::upper_bound(placed, plan.offsets[i], {}, [&](std::size_t p) { return plan.offsets[p]; });
    placed.insert(position, i);
  }
  return plan;
}

} // namespace mailgrad
