#include <mailgrad/kernels/layer_norm.hpp>

#include <mailgrad/kernels/cuda/layer_norm.hpp>
#include <mailgrad/kernels/host/layer_norm.hpp>

namespace mailgrad {

void layer_norm(const stream& s, const layer_norm_rows& r, const float* x, const float* gamma,
                const float* beta, written_numbers y, float* mean, float* inverse) {
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::layer_norm(*card, r, x, gamma, beta, y, mean, inverse);
  host::layer_norm(r, x, gamma, beta, floats_of(y, "layer_norm"), mean, inverse);
}

void layer_norm_gradient(const stream& s, const layer_norm_rows& r, const float* x, const float* gamma,
                         const float* mean, const float* inverse, read_numbers dy, float* dx, float* dgamma,
                         float* dbeta) {
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::layer_norm_gradient(*card, r, x, gamma, mean, inverse, dy, dx, dgamma, dbeta);
  host::layer_norm_gradient(r, x, gamma, mean, inverse, floats_of(dy, "layer_norm_gradient"), dx, dgamma,
                            dbeta);
}

} // namespace mailgrad
