#pragma once

#include <mailgrad/kernels/right_labels.hpp>

namespace mailgrad::host {

/// kernels/right_labels.hpp on the calling thread.
void count_right_labels(const float* logits, const std::int32_t* labels, std::int32_t* right,
                        std::size_t rows, std::size_t columns);

} // namespace mailgrad::host
