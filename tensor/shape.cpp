#include <mailgrad/tensor/shape.hpp>

#include <mailgrad/tensor/error.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>

namespace mailgrad {

shape::shape(std::span<const std::size_t> extents) : rank_(extents.size()) {
  if (extents.size() > max_rank)
    throw shape_error("a shape has at most " + std::to_string(max_rank) + " extents, got " +
                      std::to_string(extents.size()));
  std::ranges::copy(extents, extents_.begin());
  require_countable(*this);
}

std::size_t shape::size() const noexcept {
  return std::accumulate(begin(), end(), std::size_t{1}, std::multiplies<>{});
}

void require_countable(const shape& s) {
  constexpr std::size_t most = std::numeric_limits<std::ptrdiff_t>::max() / sizeof(float);
  if (std::ranges::find(s, std::size_t{0}) != s.end()) return;
  std::size_t count = 1;
  for (const std::size_t extent : s)
    if (__builtin_mul_overflow(count, extent, &count) || count > most)
      throw shape_error("a shape of " + to_string(s) + " has more elements than memory can hold");
}

bool operator==(const shape& a, const shape& b) noexcept {
  return a.rank_ == b.rank_ &&
         a.extents_ == b.extents_; // those beyond the rank are 0; a fixed length compares faster
}

std::string to_string(const shape& s) {
  if (s.rank() == 0) return "scalar";
  std::string text = std::to_string(s[0]);
  for (std::size_t axis = 1; axis < s.rank(); ++axis) text += 'x' + std::to_string(s[axis]);
  return text;
}

} // namespace mailgrad
