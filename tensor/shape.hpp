#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace mailgrad {

/// The type of a tensor's elements: float32 for numbers to compute with, int32 for labels and indices.
enum class dtype : std::uint8_t { float32, int32 };

constexpr std::size_t byte_size(dtype) noexcept { return 4; }
constexpr std::string_view to_string(dtype t) noexcept { return t == dtype::float32 ? "float32" : "int32"; }

template <class T>
inline constexpr dtype dtype_of = dtype::float32;
template <>
inline constexpr dtype dtype_of<std::int32_t> = dtype::int32;

/// The extents of a tensor, outermost first. A scalar has rank 0 and size 1.
///
/// Errors  shape_error if more than `max_rank` extents are given, or memory could not hold so many elements.
class shape {
public:
  static constexpr std::size_t max_rank = 8;

  shape() = default;
  shape(std::initializer_list<std::size_t> extents) : shape(std::span{extents.begin(), extents.size()}) {}
  explicit shape(std::span<const std::size_t> extents);

  std::size_t rank() const noexcept { return rank_; }
  /// Number of elements.
  std::size_t size() const noexcept;
  std::size_t operator[](std::size_t axis) const noexcept { return extents_[axis]; }
  std::size_t& operator[](std::size_t axis) noexcept { return extents_[axis]; }
  std::size_t back() const noexcept { return extents_[rank_ - 1]; }
  const std::size_t* begin() const noexcept { return extents_.data(); }
  const std::size_t* end() const noexcept { return extents_.data() + rank_; }

  friend bool operator==(const shape& a, const shape& b) noexcept;

private:
  std::array<std::size_t, max_rank> extents_{};
  std::size_t rank_ = 0;
};

/// Errors  shape_error if no memory could hold so many elements.
void require_countable(const shape& s);

/// "64x784"; a scalar is "scalar".
std::string to_string(const shape& s);

} // namespace mailgrad
