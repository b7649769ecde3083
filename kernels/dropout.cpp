#include <mailgrad/kernels/dropout.hpp>

#include <mailgrad/kernels/cuda/dropout.hpp>
#include <mailgrad/kernels/host/dropout.hpp>

namespace mailgrad {

void dropout(const stream& s, const dropout_draw& draw, const float* x, float* y, std::size_t size) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::dropout(*card, draw, x, y, size);
  host::dropout(draw, x, y, size);
}

} // namespace mailgrad
