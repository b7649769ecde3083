#pragma once

#include <mailgrad/kernels/elementwise.hpp>

namespace mailgrad::host {

// kernels/elementwise.hpp on the calling thread.

void elementwise(const elementwise_chain& chain, std::span<const void* const> inputs,
                 std::span<void* const> outputs, std::size_t n, void* scratch);
void broadcast(elementwise_function f, const broadcast_plan& plan, const float* a, const float* b, float* y);
void bias_relu_gradient(const float* y, const float* dy, float* dz, float* db, std::size_t rows,
                        std::size_t columns);

} // namespace mailgrad::host
