#include <mailgrad/kernels/gpu_body.hpp>
#include <mailgrad/kernels/host/rows.hpp>
#include <mailgrad/kernels/layer_norm.hpp>

#include <cmath>

namespace mailgrad {

void layer_norm(const stream& s, const layer_norm_rows& r, const float* x, const float* gamma,
                const float* beta, written_numbers y, float* mean, float* inverse) {
  if (on_gpu<layer_norm>(s, r, x, gamma, beta, y, mean, inverse)) return;
  float* to = floats_of(y, "layer_norm");
  const auto n = static_cast<float>(r.width);
  for (std::size_t row = 0; row < r.rows; ++row, x += r.width, to += r.width) {
    const float mu = row_sum(r.width, [=](std::size_t c) { return x[c]; }) / n;
    // The variance is summed from differences, because mean(x^2) - mean(x)^2 would cancel.
    const float squares = row_sum(r.width, [=](std::size_t c) { return (x[c] - mu) * (x[c] - mu); });
    const float inv = 1 / std::sqrt(squares / n + r.epsilon);
#pragma omp simd
    for (std::size_t c = 0; c < r.width; ++c) to[c] = (x[c] - mu) * inv * gamma[c] + beta[c];
    mean[row] = mu;
    inverse[row] = inv;
  }
}

void layer_norm_gradient(const stream& s, const layer_norm_rows& r, const float* x, const float* gamma,
                         const float* mean, const float* inverse, read_numbers dy, float* dx, float* dgamma,
                         float* dbeta) {
  if (on_gpu<layer_norm_gradient>(s, r, x, gamma, mean, inverse, dy, dx, dgamma, dbeta)) return;
  const float* d = floats_of(dy, "layer_norm_gradient");
  std::fill_n(dgamma, r.width, 0.0F);
  std::fill_n(dbeta, r.width, 0.0F);
  const auto n = static_cast<float>(r.width);
  for (std::size_t row = 0; row < r.rows; ++row, x += r.width, d += r.width, dx += r.width) {
    const float mu = mean[row];
    const float inv = inverse[row];
    float sum = 0, sum_x_hat = 0; // sums of the gradient with respect to x_hat, and of its product with x_hat
#pragma omp simd reduction(+ : sum, sum_x_hat)
    for (std::size_t c = 0; c < r.width; ++c) {
      const float x_hat = (x[c] - mu) * inv;
      const float g = d[c] * gamma[c];
      sum += g;
      sum_x_hat += g * x_hat;
      dgamma[c] += d[c] * x_hat;
      dbeta[c] += d[c];
    }
#pragma omp simd
    for (std::size_t c = 0; c < r.width; ++c) {
      const float x_hat = (x[c] - mu) * inv;
      dx[c] = inv * (d[c] * gamma[c] - (sum + x_hat * sum_x_hat) / n);
    }
  }
}

} // namespace mailgrad
