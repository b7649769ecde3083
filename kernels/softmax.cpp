#include <mailgrad/kernels/host/rows.hpp>
#include <mailgrad/kernels/softmax.hpp>

namespace mailgrad::host {

// On the calling thread.

void softmax(const float* x, float* y, std::size_t rows, std::size_t columns) {
  const std::size_t block = rows_at_once(columns);
  for (std::size_t first = 0; first < rows; first += block) {
    const std::size_t count = std::min(block, rows - first);
    float* const to = y + first * columns;
    for (std::size_t r = 0; r < count; ++r) shift_row(x + (first + r) * columns, to + r * columns, columns);
    exponentiate(to, count * columns);
    for (std::size_t r = 0; r < count; ++r) normalise_row(to + r * columns, columns);
  }
}

void softmax_gradient(const float* y, const float* dy, float* dx, std::size_t rows, std::size_t columns) {
  for (std::size_t row = 0; row < rows; ++row, y += columns, dy += columns, dx += columns) {
    const float projection = row_sum(columns, [=](std::size_t i) { return y[i] * dy[i]; });
#pragma omp simd
    for (std::size_t i = 0; i < columns; ++i) dx[i] = y[i] * (dy[i] - projection);
  }
}

} // namespace mailgrad::host

namespace mailgrad {

void softmax(const stream& s, const float* x, float* y, std::size_t rows, std::size_t columns) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::softmax(*card, x, y, rows, columns);
  host::softmax(x, y, rows, columns);
}

void softmax_gradient(const stream& s, const float* y, const float* dy, float* dx, std::size_t rows,
                      std::size_t columns) {
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::softmax_gradient(*card, y, dy, dx, rows, columns);
  host::softmax_gradient(y, dy, dx, rows, columns);
}

} // namespace mailgrad
