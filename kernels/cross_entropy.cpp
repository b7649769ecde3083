#include <mailgrad/kernels/cross_entropy.hpp>

#include <mailgrad/kernels/cuda/cross_entropy.hpp>
#include <mailgrad/kernels/host/cross_entropy.hpp>

namespace mailgrad {

void cross_entropy(const stream& s, const float* logits, const std::int32_t* labels, float* loss,
                   float* probabilities, std::size_t rows, std::size_t columns) {
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::cross_entropy(*card, logits, labels, loss, probabilities, rows, columns);
  host::cross_entropy(logits, labels, loss, probabilities, rows, columns);
}

void cross_entropy_gradient(const stream& s, const float* probabilities, const std::int32_t* labels,
                            const float* d_loss, float* d_logits, std::size_t rows, std::size_t columns) {
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::cross_entropy_gradient(*card, probabilities, labels, d_loss, d_logits, rows, columns);
  host::cross_entropy_gradient(probabilities, labels, d_loss, d_logits, rows, columns);
}

} // namespace mailgrad
