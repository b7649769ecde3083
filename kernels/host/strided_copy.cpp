#include <mailgrad/kernels/strided_copy.hpp>

#include <mailgrad/tensor/require_host.hpp>

#include <algorithm>

namespace mailgrad {

namespace {

/// The rows and columns of a tile that is transposed: as many floats as a cache line has.
constexpr std::size_t tile = 16;

} // namespace

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

/// Adds an axis. It is joined to the last one if both continue each other in both memories.
void strided_copy::add(const axis& next) noexcept {
  if (next.extent == 1) return;
  axis* last = rank_ == 0 ? nullptr : &axes_[rank_ - 1];
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
  const auto real = [](const axis& a) { return a.extent != 1; };
  const auto move_to_end = [&](auto last, auto step) {
    auto best = last - 1;
    for (auto i = begin; i != last; ++i)
      if (real(*i) && (!real(*best) || step(*i) < step(*best))) best = i;
    std::rotate(best, best + 1, last);
  };
  move_to_end(end, [](const axis& a) { return a.to; });
  if ((end - 1)->from != 1) move_to_end(end - 1, [](const axis& a) { return a.from; });
}

void strided_copy::run(const stream& s, const float* from, float* to) const {
  require_host(s, "strided_copy");
  copy_outer(0, from + from_offset_, to + to_offset_);
}

void strided_copy::run_into_zeros(const stream& s, const float* from, float* to, std::size_t size) const {
  require_host(s, "strided_copy");
  std::fill_n(to, size, 0.0F);
  run(s, from, to);
}

void strided_copy::copy_outer(std::size_t outer, const float* from, float* to) const {
  if (outer + 2 == rank_) return copy_plane(from, to);
  const axis& a = axes_[outer];
  for (std::size_t i = 0; i < a.extent; ++i) copy_outer(outer + 1, from + i * a.from, to + i * a.to);
}

void strided_copy::copy_plane(const float* from, float* to) const {
  const axis& rows = axes_[rank_ - 2];
  const axis& columns = axes_[rank_ - 1];
  if (columns.from == 1 && columns.to == 1) {
    for (std::size_t r = 0; r < rows.extent; ++r)
      std::copy_n(from + r * rows.from, columns.extent, to + r * rows.to);
    return;
  }
  if (rows.extent == 1) { // a single row needs no tiles
    for (std::size_t c = 0; c < columns.extent; ++c, from += columns.from, to += columns.to) *to = *from;
    return;
  }
  for (std::size_t first_row = 0; first_row < rows.extent; first_row += tile)
    for (std::size_t first = 0; first < columns.extent; first += tile) {
      const std::size_t row_end = std::min(rows.extent, first_row + tile);
      const std::size_t end = std::min(columns.extent, first + tile);
      for (std::size_t r = first_row; r < row_end; ++r)
        for (std::size_t c = first; c < end; ++c)
          to[r * rows.to + c * columns.to] = from[r * rows.from + c * columns.from];
    }
}

} // namespace mailgrad
