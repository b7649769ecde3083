#include <mailgrad/kernels/host/right_labels.hpp>

#include <algorithm>

namespace mailgrad::host {

void count_right_labels(const float* logits, const std::int32_t* labels, std::int32_t* right,
                        std::size_t rows, std::size_t columns) {
  std::int32_t count = 0;
  for (std::size_t row = 0; row < rows; ++row, logits += columns)
    if (std::max_element(logits, logits + columns) - logits == labels[row]) ++count;
  *right = count;
}

} // namespace mailgrad::host
