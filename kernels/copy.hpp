#pragma once

#include <mailgrad/tensor/shape.hpp>
#include <mailgrad/tensor/stream.hpp>

namespace mailgrad {

/// Copies memory that the stream's kernels can reach. Both memories lie apart.
///
/// Errors  device_error that the GPU's driver reports.
void copy_bytes(const stream& s, void* to, const void* from, std::size_t bytes);

/// Rows of a table that are copied to the same place of another one. Both have rows row_begin to row_end - 1
/// of a table that may lie in several parts.
struct row_copy {
  static constexpr std::size_t all = ~std::size_t{0};

  const float* from = nullptr; ///< row `row_begin`
  float* to = nullptr;         ///< the same row
  std::size_t width = 0;       ///< floats of a row
  std::int32_t row_begin = 0;
  std::int32_t row_end = 0;
  std::size_t count = all;               ///< of rows that are named; `all`: each, without a name
  const std::int32_t* numbers = nullptr; ///< their names, int32
  std::size_t stride = 1;                ///< from one name to the next

  bool is_whole() const noexcept { return count == all; }
  std::size_t height() const noexcept { return static_cast<std::size_t>(row_end - row_begin); }
};

/// Makes each copy. Numbers of rows that the part lacks are passed over, negative ones too. A row may be
/// named more than once, also by several copies, if all of these copy the same values to it.
///
/// On a GPU `from` may lie in pinned memory.
/// Errors  on a GPU shape_error for rows of 2^31 floats or more.
void copy_rows(const stream& s, std::span<const row_copy> copies);

/// Where the elements of a box lie: element (i, j, ...) at offset + i * steps[0] + j * steps[1] + ...
struct element_places {
  std::array<std::size_t, shape::max_rank> steps{};
  std::size_t offset = 0;
};

/// An axis of a box that is copied: its extent, and its steps in both memories.
struct copied_axis {
  std::size_t extent = 1, from = 0, to = 0;
};

/// Copies a box along these axes, at least two. The last has the smallest step in the target, and the last
/// two are the plane of the inner loops. strided_copy puts them so.
void copy_box(const stream& s, std::span<const copied_axis> axes, const float* from, float* to);

/// The places of a row-major tensor without gaps.
element_places row_major(const shape& dims) noexcept;

/// Copies a box of elements between two memories, with other places in each. Transposing, slicing and joining
/// tensors are such copies. The plan is made once and run many times.
///
/// Shapes  float32; no two elements share a place in the target.
class strided_copy {
public:
  strided_copy(const shape& extents, const element_places& from, const element_places& to);

  void run(const stream& s, const float* from, float* to) const;

  /// Writes zero to all `size` elements of the target first.
  void run_into_zeros(const stream& s, const float* from, float* to, std::size_t size) const;

private:
  void add(const copied_axis& next) noexcept;
  void put_inner_axes_last() noexcept;

  std::array<copied_axis, shape::max_rank + 1>
      axes_{}; ///< the last two of `rank_` are the plane of the inner loops
  std::size_t rank_ = 0;
  std::size_t from_offset_, to_offset_;
};

} // namespace mailgrad
