#include <mailgrad/kernels/host/strided_copy.hpp>

#include <algorithm>

namespace mailgrad {

namespace {

/// The rows and columns of a tile that is transposed: as many floats as a cache line has.
constexpr std::size_t tile_side = 16;

void copy_plane(const copied_axis& rows, const copied_axis& columns, const float* from, float* to) {
  if (columns.from == 1 && columns.to == 1) {
    for (std::size_t r = 0; r < rows.extent; ++r)
      std::copy_n(from + r * rows.from, columns.extent, to + r * rows.to);
    return;
  }
  if (rows.extent == 1) { // a single row needs no tiles
    for (std::size_t c = 0; c < columns.extent; ++c, from += columns.from, to += columns.to) *to = *from;
    return;
  }
  for (std::size_t first_row = 0; first_row < rows.extent; first_row += tile_side)
    for (std::size_t first = 0; first < columns.extent; first += tile_side) {
      const std::size_t row_end = std::min(rows.extent, first_row + tile_side);
      const std::size_t end = std::min(columns.extent, first + tile_side);
      for (std::size_t r = first_row; r < row_end; ++r)
        for (std::size_t c = first; c < end; ++c)
          to[r * rows.to + c * columns.to] = from[r * rows.from + c * columns.from];
    }
}

} // namespace

void host::copy_box(std::span<const copied_axis> axes, const float* from, float* to) {
  if (axes.size() == 2) return copy_plane(axes[0], axes[1], from, to);
  for (std::size_t i = 0; i < axes[0].extent; ++i)
    copy_box(axes.subspan(1), from + i * axes[0].from, to + i * axes[0].to);
}

} // namespace mailgrad
