#include <mailgrad/tensor/fail_with.hpp>
#include <mailgrad/tensor/shape.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace mailgrad {

shape::shape(std::span<const std::size_t> extents) : rank_(extents.size()) {
  if (extents.size() > max_rank)
    fail_with<shape_error>("a shape has at most {} extents, got {}", max_rank, extents.size());
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
      fail_with<shape_error>("a shape of {} has more elements than memory can hold", to_string(s));
}

bool operator==(const shape& a, const shape& b) noexcept {
  return a.rank_ == b.rank_ &&
         a.extents_ == b.extents_; // extents beyond the rank are 0, and a fixed length compares faster
}

std::string to_string(const shape& s) {
  if (s.rank() == 0) return "scalar";
  return fmt::format("{}", fmt::join(s, "x"));
}

} // namespace mailgrad
