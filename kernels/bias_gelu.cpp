#include <mailgrad/kernels/bias_gelu.hpp>

#include <mailgrad/kernels/cuda/bias_gelu.hpp>
#include <mailgrad/kernels/host/bias_gelu.hpp>

namespace mailgrad {

void bias_gelu(const stream& s, const float* x, const float* b, float* y, float* slope, std::size_t rows,
               std::size_t columns) {
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::bias_gelu(*card, x, b, y, slope, rows, columns);
  host::bias_gelu(x, b, y, slope, rows, columns);
}

void bias_gelu_gradient(const stream& s, const float* slope, const float* dy, float* dz, float* db,
                        std::size_t rows, std::size_t columns) {
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::bias_gelu_gradient(*card, slope, dy, dz, db, rows, columns);
  host::bias_gelu_gradient(slope, dy, dz, db, rows, columns);
}

} // namespace mailgrad
