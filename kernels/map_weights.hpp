#pragma once

#include <mailgrad/kernels/functors/weight_functions.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <span>

namespace mailgrad {

/// Calls `f` for each of n weights, with one element of each array that it reads and of each that it writes.
///
/// Shapes  every array: float32[n]. An array that is written may also be read; otherwise arrays lie apart.
/// Errors  shape_error for another number of arrays than `f` takes; device_error for a GPU this build lacks.
/// Threads one caller at a time for one array that is written.
void map_weights(const stream& s, const weight_function& f, std::span<const float* const> reads,
                 std::span<float* const> writes, std::size_t n);

} // namespace mailgrad

namespace mailgrad::cuda {

/// map_weights() on a stream of a GPU. All memory lies on its device; the call returns before the kernel has
/// run.
void map_weights(const cuda_stream& s, const weight_function& f, std::span<const float* const> reads,
                 std::span<float* const> writes, std::size_t n);

} // namespace mailgrad::cuda
