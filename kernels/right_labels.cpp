#include <mailgrad/kernels/right_labels.hpp>

#include <mailgrad/kernels/cuda/right_labels.hpp>
#include <mailgrad/kernels/host/right_labels.hpp>

namespace mailgrad {

void count_right_labels(const stream& s, const float* logits, const std::int32_t* labels, std::int32_t* right,
                        std::size_t rows, std::size_t columns) {
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::count_right_labels(*card, logits, labels, right, rows, columns);
  host::count_right_labels(logits, labels, right, rows, columns);
}

} // namespace mailgrad
