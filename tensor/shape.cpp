#include <mailgrad/tensor/shape.hpp>

#include <mailgrad/tensor/error.hpp>

#include <algorithm>
#include <functional>
#include <numeric>

namespace mailgrad {

shape::shape(std::span<const std::size_t> extents) : rank_(extents.size()) {
  if (extents.size() > max_rank)
    throw shape_error("a shape has at most " + std::to_string(max_rank) + " extents, got " +
                      std::to_string(extents.size()));
  std::ranges::copy(extents, extents_.begin());
}

std::size_t shape::size() const noexcept {
  return std::accumulate(begin(), end(), std::size_t{1}, std::multiplies<>{});
}

bool operator==(const shape& a, const shape& b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

std::string to_string(const shape& s) {
  if (s.rank() == 0) return "scalar";
  std::string text = std::to_string(s[0]);
  for (std::size_t axis = 1; axis < s.rank(); ++axis) text += 'x' + std::to_string(s[axis]);
  return text;
}

} // namespace mailgrad
