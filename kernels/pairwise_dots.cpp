#include <mailgrad/kernels/pairwise_dots.hpp>

#include <algorithm>

namespace mailgrad::host {

// On the calling thread.

namespace {

float dot(const float* a, const float* b, std::size_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(float factor, const float* x, float* sum, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) sum[i] += factor * x[i];
}

} // namespace

void pairwise_dots(const vector_sets& sets, const float* x, float* dots) {
  const std::size_t n = sets.width;
  for (std::size_t sample = 0; sample < sets.samples; ++sample, x += sets.count * n)
    for (std::size_t i = 1; i < sets.count; ++i)
      for (std::size_t j = 0; j < i; ++j) *dots++ = dot(x + i * n, x + j * n, n);
}

void pairwise_dots_gradient(const vector_sets& sets, const float* x, const float* ddots, float* dx) {
  const std::size_t n = sets.width;
  std::fill_n(dx, sets.samples * sets.count * n, 0.0F);
  for (std::size_t sample = 0; sample < sets.samples; ++sample, x += sets.count * n, dx += sets.count * n)
    for (std::size_t i = 1; i < sets.count; ++i)
      for (std::size_t j = 0; j < i; ++j, ++ddots) {
        add_scaled(*ddots, x + j * n, dx + i * n, n);
        add_scaled(*ddots, x + i * n, dx + j * n, n);
      }
}

} // namespace mailgrad::host

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
