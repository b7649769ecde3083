#include <mailgrad/kernels/host/copy_rows.hpp>

#include <algorithm>

namespace mailgrad::host {

namespace {

void copy_named(const row_copy& c) {
  for (std::size_t i = 0; i < c.count; ++i) {
    const std::int32_t row = c.numbers[i * c.stride];
    if (row < c.row_begin || row >= c.row_end) continue;
    const std::size_t first = static_cast<std::size_t>(row - c.row_begin) * c.width;
    std::copy_n(c.from + first, c.width, c.to + first);
  }
}

} // namespace

void copy_rows(std::span<const row_copy> copies) {
  for (const row_copy& c : copies)
    if (c.is_whole())
      std::copy_n(c.from, c.height() * c.width, c.to);
    else
      copy_named(c);
}

} // namespace mailgrad::host
