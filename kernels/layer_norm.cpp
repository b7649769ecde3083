#include <mailgrad/kernels/host/rows.hpp>
#include <mailgrad/kernels/layer_norm.hpp>

#include <algorithm>
#include <cmath>

namespace mailgrad::host {

// On the calling thread.

void layer_norm(const layer_norm_rows& r, const float* x, const float* gamma, const float* beta, float* y,
                float* mean, float* inverse) {
  const auto n = static_cast<float>(r.width);
  for (std::size_t row = 0; row < r.rows; ++row, x += r.width, y += r.width) {
    const float mu = row_sum(r.width, [=](std::size_t c) { return x[c]; }) / n;
    // The variance is summed from differences, because mean(x^2) - mean(x)^2 would cancel.
    const float squares = row_sum(r.width, [=](std::size_t c) { return (x[c] - mu) * (x[c] - mu); });
    const float inv = 1 / std::sqrt(squares / n + r.epsilon);
#pragma omp simd
    for (std::size_t c = 0; c < r.width; ++c) y[c] = (x[c] - mu) * inv * gamma[c] + beta[c];
    mean[row] = mu;
    inverse[row] = inv;
  }
}

void layer_norm_gradient(const layer_norm_rows& r, const float* x, const float* gamma, const float* mean,
                         const float* inverse, const float* dy, float* dx, float* dgamma, float* dbeta) {
  std::fill_n(dgamma, r.width, 0.0F);
  std::fill_n(dbeta, r.width, 0.0F);
  const auto n = static_cast<float>(r.width);
  for (std::size_t row = 0; row < r.rows; ++row, x += r.width, dy += r.width, dx += r.width) {
    const float mu = mean[row];
    const float inv = inverse[row];
    float sum = 0, sum_x_hat = 0; // sums of the gradient with respect to x_hat, and of its product with x_hat
#pragma omp simd reduction(+ : sum, sum_x_hat)
    for (std::size_t c = 0; c < r.width; ++c) {
      const float x_hat = (x[c] - mu) * inv;
      const float g = dy[c] * gamma[c];
      sum += g;
      sum_x_hat += g * x_hat;
      dgamma[c] += dy[c] * x_hat;
      dbeta[c] += dy[c];
    }
#pragma omp simd
    for (std::size_t c = 0; c < r.width; ++c) {
      const float x_hat = (x[c] - mu) * inv;
      dx[c] = inv * (dy[c] * gamma[c] - (sum + x_hat * sum_x_hat) / n);
    }
  }
}

} // namespace mailgrad::host

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
