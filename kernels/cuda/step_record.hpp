#pragma once

#include <mailgrad/kernels/cuda/lane_words.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <cstdint>

namespace mailgrad::cuda {

/// What the end of a step says, in pinned memory of the host.
struct alignas(64) step_record {
  float loss = 0;
  fault_word fault; ///< its cause is 0 if no kernel found anything wrong
};

/// Queues a kernel that writes the record of all work before it and forgets the fault. The host reads it when
/// a mark behind it has passed.
///
/// Shapes  loss: float32[1], on the card; record: pinned.
/// Errors  device_error.
void write_record(const cuda_stream& s, const float* loss, step_record* record);

} // namespace mailgrad::cuda
