#pragma once

#include <mailgrad/kernels/cuda/lane_words.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <cstdint>

namespace mailgrad::cuda {

/// What the end of a step says, in pinned memory of the host.
struct alignas(64) step_record {
  float loss = 0;
  double squared_norm = 0; ///< of the gradient, if it was asked for
  fault_word fault;        ///< its cause is 0 if no kernel found anything wrong
};

/// Queues a kernel that writes the record of all work before it and forgets the fault. The host reads it when
/// a mark behind it has passed.
///
/// Shapes  loss: float32[1], squared_norm: float64[1] or null, both on the card; record: pinned.
/// Errors  device_error.
void write_record(const cuda_stream& s, const float* loss, const double* squared_norm, step_record* record);

} // namespace mailgrad::cuda
