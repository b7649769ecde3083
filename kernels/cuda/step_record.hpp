#pragma once

#include <mailgrad/kernels/cuda/lane_words.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <atomic>
#include <cstdint>

namespace mailgrad::cuda {

/// What the end of a step says, in pinned memory of the host.
struct alignas(64) step_record {
  float loss = 0;
  double squared_norm = 0; ///< of the gradient, if it was asked for
  fault_word fault;        ///< its cause is 0 if no kernel found anything wrong
  std::uint64_t begun = 0; ///< when the step ran, in ns by the card's clock
  std::uint64_t ended = 0;
  std::uint64_t ticket = 0; ///< that begin_step() gave the step; it is written last

  /// Whether the step with this ticket, or a later one, has written its record. Then all of it can be read.
  bool has(std::uint64_t wanted) const noexcept {
    return std::atomic_ref(const_cast<std::uint64_t&>(ticket)).load(std::memory_order_acquire) >= wanted;
  }
};

/// Queues a kernel that writes the record of all work before it and forgets the fault. The host reads it when
/// a mark behind it has passed, or the record has the step's ticket.
///
/// Shapes  loss: float32[1], squared_norm: float64[1] or null, both on the card; record: pinned.
/// Errors  device_error.
void write_record(const cuda_stream& s, const float* loss, const double* squared_norm, step_record* record);

} // namespace mailgrad::cuda
