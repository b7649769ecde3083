#pragma once

#include <mailgrad/kernels/functors/elementwise_function.hpp>

#include <cstddef>

namespace mailgrad {

/// y[i] = f(a[i], b[i]); an operand that stands still is a[0] or b[0] for all i.
using elementwise_loop = void (*)(const float* a, const float* b, float* y, std::size_t n);

enum class stepping : std::size_t { still = 0, along = 1 };

/// Returns the compiled loop of a function, for operands that each move along or stand still.
elementwise_loop find_loop(elementwise_function f, stepping a, stepping b);

} // namespace mailgrad
