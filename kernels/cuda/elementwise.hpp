#pragma once

#include <mailgrad/kernels/elementwise.hpp>

namespace mailgrad::cuda {

// The CUDA half of kernels/elementwise.hpp.

void elementwise(const cuda_stream& s, const elementwise_chain& chain, std::span<const void* const> inputs,
                 std::span<void* const> outputs, std::size_t n);
void broadcast(const cuda_stream& s, elementwise_function f, const broadcast_plan& plan, const float* a,
               const float* b, float* y);

} // namespace mailgrad::cuda
