#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/kernels/gpu_body.hpp>
#include <mailgrad/kernels/vectors.hpp>

#include <algorithm>
#include <cstring>

namespace mailgrad {
namespace {

void copy_named(const row_copy& c) {
  for (std::size_t i = 0; i < c.count; ++i) {
    const std::int32_t row = c.numbers[i * c.stride];
    if (row < c.row_begin || row >= c.row_end) continue;
    const std::size_t first = static_cast<std::size_t>(row - c.row_begin) * c.width;
    std::copy_n(c.from + first, c.width, c.to + first);
  }
}

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

void copy_planes(std::span<const copied_axis> axes, const float* from, float* to) {
  if (axes.size() == 2) return copy_plane(axes[0], axes[1], from, to);
  for (std::size_t i = 0; i < axes[0].extent; ++i)
    copy_planes(axes.subspan(1), from + i * axes[0].from, to + i * axes[0].to);
}

} // namespace

void copy_bytes(const stream& s, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (const auto* gpu = std::get_if<cuda_stream>(&s)) {
    cuda::runtime::make_current(gpu->device);
    return cuda::runtime::copy(gpu->stream, to, from, bytes);
  }
  std::memcpy(to, from, bytes);
}

void copy_rows(const stream& s, std::span<const row_copy> copies) {
  if (on_gpu<copy_rows>(s, copies)) return;
  for (const row_copy& c : copies)
    if (c.is_whole())
      std::copy_n(c.from, c.height() * c.width, c.to);
    else
      copy_named(c);
}

void copy_box(const stream& s, std::span<const copied_axis> axes, const float* from, float* to) {
  if (!on_gpu<copy_box>(s, axes, from, to)) copy_planes(axes, from, to);
}

element_places row_major(const shape& dims) noexcept {
  element_places places;
  std::size_t step = 1;
  for (std::size_t i = dims.rank(); i-- > 0;) {
    places.steps[i] = step;
    step *= dims[i];
  }
  return places;
}

strided_copy::strided_copy(const shape& extents, const element_places& from, const element_places& to)
    : from_offset_(from.offset), to_offset_(to.offset) {
  for (std::size_t i = 0; i < extents.rank(); ++i) add({extents[i], from.steps[i], to.steps[i]});
  while (rank_ < 2) {
    std::copy_backward(axes_.begin(), axes_.begin() + rank_, axes_.begin() + rank_ + 1);
    axes_[0] = {};
    ++rank_;
  }
  put_inner_axes_last();
}

/// The axis is joined to the last one if both continue each other in both memories.
void strided_copy::add(const copied_axis& next) noexcept {
  if (next.extent == 1) return;
  copied_axis* last = rank_ == 0 ? nullptr : &axes_[rank_ - 1];
  if (last != nullptr && last->from == next.from * next.extent && last->to == next.to * next.extent)
    *last = {last->extent * next.extent, next.from, next.to};
  else
    axes_[rank_++] = next;
}

/// Moves the axis with the smallest step in the target to the end. Unless its step in the source is 1, the
/// axis with the smallest step in the source comes before it.
void strided_copy::put_inner_axes_last() noexcept {
  const auto begin = axes_.begin();
  const auto end = begin + rank_;
  const auto real = [](const copied_axis& a) { return a.extent != 1; };
  const auto move_to_end = [&](auto last, auto step) {
    auto best = last - 1;
    for (auto i = begin; i != last; ++i)
      if (real(*i) && (!real(*best) || step(*i) < step(*best))) best = i;
    std::rotate(best, best + 1, last);
  };
  move_to_end(end, [](const copied_axis& a) { return a.to; });
  if ((end - 1)->from != 1) move_to_end(end - 1, [](const copied_axis& a) { return a.from; });
}

void strided_copy::run(const stream& s, const float* from, float* to) const {
  copy_box(s, std::span(axes_).first(rank_), from + from_offset_, to + to_offset_);
}

void strided_copy::run_into_zeros(const stream& s, const float* from, float* to, std::size_t size) const {
  fill(s, 0, {to, size});
  run(s, from, to);
}

} // namespace mailgrad
