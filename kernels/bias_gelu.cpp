#include <mailgrad/kernels/bias_gelu.hpp>
#include <mailgrad/kernels/functors/approximations.hpp>

#include <algorithm>

namespace mailgrad::host {

// On the calling thread.

void bias_gelu(const float* x, const float* b, float* y, float* slope, std::size_t rows,
               std::size_t columns) {
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t first = row * columns;
#pragma omp simd
    for (std::size_t i = 0; i < columns; ++i) {
      const float z = x[first + i] + b[i];
      const approximate::normal_parts normal = approximate::normal_at(z);
      y[first + i] = z * normal.share;
      slope[first + i] = normal.share + z * normal.density;
    }
  }
}

void bias_gelu_gradient(const float* slope, const float* dy, float* dz, float* db, std::size_t rows,
                        std::size_t columns) {
  std::fill_n(db, columns, 0.0F);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t first = row * columns;
#pragma omp simd
    for (std::size_t i = 0; i < columns; ++i) {
      const float d = slope[first + i] * dy[first + i];
      dz[first + i] = d;
      db[i] += d;
    }
  }
}

} // namespace mailgrad::host

namespace mailgrad {

void bias_gelu(const stream& s, read_numbers x, const float* b, written_numbers y, written_numbers slope,
               std::size_t rows, std::size_t columns) {
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::bias_gelu(*card, x, b, y, slope, rows, columns);
  host::bias_gelu(floats_of(x, "bias_gelu"), b, floats_of(y, "bias_gelu"), floats_of(slope, "bias_gelu"),
                  rows, columns);
}

void bias_gelu_gradient(const stream& s, read_numbers slope, read_numbers dy, written_numbers dz, float* db,
                        std::size_t rows, std::size_t columns) {
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::bias_gelu_gradient(*card, slope, dy, dz, db, rows, columns);
  host::bias_gelu_gradient(floats_of(slope, "bias_gelu_gradient"), floats_of(dy, "bias_gelu_gradient"),
                           floats_of(dz, "bias_gelu_gradient"), db, rows, columns);
}

} // namespace mailgrad
