#include <mailgrad/kernels/bias_gelu.hpp>

#include <mailgrad/kernels/cuda/bias_gelu.hpp>
#include <mailgrad/kernels/host/bias_gelu.hpp>

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
