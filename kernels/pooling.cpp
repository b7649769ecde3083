#include <mailgrad/kernels/pooling.hpp>

#include <mailgrad/kernels/cuda/pooling.hpp>
#include <mailgrad/kernels/host/pooling.hpp>

namespace mailgrad {

void max_pool(const stream& s, const window_grid& g, const float* x, float* y, std::int32_t* chosen) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::max_pool(*card, g, x, y, chosen);
  host::max_pool(g, x, y, chosen);
}

void max_pool_gradient(const stream& s, const window_grid& g, const float* dy, const std::int32_t* chosen,
                       float* dx) {
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::max_pool_gradient(*card, g, dy, chosen, dx);
  host::max_pool_gradient(g, dy, chosen, dx);
}

void average_pool(const stream& s, const window_grid& g, const float* x, float* y) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::average_pool(*card, g, x, y);
  host::average_pool(g, x, y);
}

void average_pool_gradient(const stream& s, const window_grid& g, const float* dy, float* dx) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::average_pool_gradient(*card, g, dy, dx);
  host::average_pool_gradient(g, dy, dx);
}

} // namespace mailgrad
