#include <mailgrad/kernels/softmax.hpp>

#include <mailgrad/kernels/cuda/softmax.hpp>
#include <mailgrad/kernels/host/softmax.hpp>

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
