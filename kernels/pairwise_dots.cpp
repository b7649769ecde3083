#include <mailgrad/kernels/pairwise_dots.hpp>

#include <mailgrad/kernels/cuda/pairwise_dots.hpp>
#include <mailgrad/kernels/host/product/pairwise_dots.hpp>

namespace mailgrad {

void pairwise_dots(const stream& s, const vector_sets& sets, const float* x, float* dots) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::pairwise_dots(*card, sets, x, dots);
  host::pairwise_dots(sets, x, dots);
}

void pairwise_dots_gradient(const stream& s, const vector_sets& sets, const float* x, const float* ddots,
                            float* dx) {
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::pairwise_dots_gradient(*card, sets, x, ddots, dx);
  host::pairwise_dots_gradient(sets, x, ddots, dx);
}

} // namespace mailgrad
