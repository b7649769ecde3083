#pragma once

#include <mailgrad/tensor/shape.hpp>

#include <array>
#include <cstddef>
#include <span>

namespace mailgrad {

/// Walks all axes but the innermost, over which the kernel loops, and computes the offset of each operand.
template <std::size_t Operands>
class odometer {
public:
  /// `strides` of each operand in elements, as many as there are extents; no extent is 0.
  odometer(std::span<const std::size_t> extents, const std::array<const std::size_t*, Operands>& strides)
      : extents_(extents), strides_(strides) {}

  std::size_t offset(std::size_t operand) const noexcept { return offsets_[operand]; }

  /// Moves to the next innermost row; returns false after the last.
  bool advance() noexcept {
    for (std::size_t axis = extents_.size() - 1; axis-- > 0;) {
      for (std::size_t i = 0; i < Operands; ++i) offsets_[i] += strides_[i][axis];
      if (++index_[axis] < extents_[axis]) return true;
      for (std::size_t i = 0; i < Operands; ++i) offsets_[i] -= strides_[i][axis] * extents_[axis];
      index_[axis] = 0;
    }
    return false;
  }

private:
  std::span<const std::size_t> extents_;
  std::array<const std::size_t*, Operands> strides_;
  std::array<std::size_t, shape::max_rank> index_{};
  std::array<std::size_t, Operands> offsets_{};
};

} // namespace mailgrad
