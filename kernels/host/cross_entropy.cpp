#include <mailgrad/kernels/cross_entropy.hpp>

#include <mailgrad/kernels/host/softmax_row.hpp>
#include <mailgrad/kernels/no_cuda.hpp>

#include <limits>

namespace mailgrad {

void cross_entropy(const stream& s, const float* logits, const std::int32_t* labels, float* loss,
                   float* probabilities, std::size_t rows, std::size_t columns) {
  require_host(s, "cross_entropy");
  double total = 0; // of possibly very many rows
  for (std::size_t row = 0; row < rows; ++row, logits += columns, probabilities += columns) {
    const auto label = static_cast<std::size_t>(labels[row]); // a negative one becomes too large
    const float at_label = label < columns ? logits[label] : std::numeric_limits<float>::quiet_NaN();
    const softmax_sum all = exponentials(logits, probabilities, columns);
    scale(probabilities, 1 / all.sum, columns);
    total += static_cast<double>(approximate::log(all.sum) - (at_label - all.largest));
  }
  *loss = static_cast<float>(total / static_cast<double>(rows));
}

void cross_entropy_gradient(const stream& s, const float* probabilities, const std::int32_t* labels,
                            const float* d_loss, float* d_logits, std::size_t rows, std::size_t columns) {
  require_host(s, "cross_entropy_gradient");
  const float factor = *d_loss / static_cast<float>(rows);
#pragma omp simd
  for (std::size_t i = 0; i < rows * columns; ++i) d_logits[i] = probabilities[i] * factor;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto label = static_cast<std::size_t>(labels[row]);
    if (label < columns) d_logits[row * columns + label] -= factor;
  }
}

} // namespace mailgrad
