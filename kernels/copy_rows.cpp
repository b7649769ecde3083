#include <mailgrad/kernels/copy_rows.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>

#include <algorithm>
#include <cstring>

namespace mailgrad::host {

// On the calling thread.

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

namespace mailgrad {

void copy_bytes(const stream& s, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (const auto* card = std::get_if<cuda_stream>(&s)) {
    cuda::runtime::make_current(card->device);
    return cuda::runtime::copy(card->stream, to, from, bytes);
  }
  std::memcpy(to, from, bytes);
}

void copy_rows(const stream& s, std::span<const row_copy> copies) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::copy_rows(*card, copies);
  host::copy_rows(copies);
}

} // namespace mailgrad
