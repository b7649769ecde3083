#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <atomic>

namespace mailgrad::cuda {

/// What a kernel may find wrong in its data.
enum class fault_kind : std::uint32_t { none, label, row, column, entries };

/// The first thing that a kernel found wrong, as the host would have found it: of the first kernel that
/// found something, the element with the smallest number. A kernel cannot throw, so it writes this and goes
/// on without the element.
struct fault_word {
  using word = unsigned long long; // what CUDA's atomic functions take

  word cause = 0; ///< cuda_stream::operation of the kernel's launch, and a fault_kind below it
  word first = 0; ///< the element's number, inverted so that the largest word is the first element, and below
                  ///< it the label, row, column or entry that does not exist
  word bound = 0; ///< the same number, inverted, and below it the number of classes, of the rows of that
                  ///< element's table, or of entries; 2^32 - 1 if there are more

  static constexpr word cause_of(fault_kind kind, std::uint32_t operation) {
    return static_cast<word>(operation) << 32 | static_cast<std::uint32_t>(kind);
  }
  static constexpr word first_of(std::uint32_t element, std::int32_t found) {
    return static_cast<word>(~element) << 32 | static_cast<std::uint32_t>(found);
  }
  static constexpr word bound_of(std::uint32_t element, std::uint64_t limit) {
    constexpr std::uint64_t most = 0xffffffffU;
    return static_cast<word>(~element) << 32 | (limit < most ? limit : most);
  }
  fault_kind kind() const { return static_cast<fault_kind>(cause & 0xffffffffU); }
  std::uint32_t operation() const { return static_cast<std::uint32_t>(cause >> 32); }
  std::uint32_t element() const { return ~static_cast<std::uint32_t>(first >> 32); }
  std::int32_t found() const { return static_cast<std::int32_t>(first & 0xffffffffU); }
  std::uint32_t limit() const { return static_cast<std::uint32_t>(bound & 0xffffffffU); }
};

/// What the kernels of one stream read and write besides their operands, in memory of the GPU.
struct stream_status {
  std::uint64_t step = 0;   ///< random operations draw from their seed and this number
  std::uint64_t ticket = 0; ///< of the step that runs
  std::uint64_t begun = 0;  ///< when it began, in ns by the GPU's clock
  fault_word fault;
};

/// Sets the number that random operations on `s` draw from and the ticket of the step's record, notes when
/// the GPU begins the step, and waits for nothing.
///
/// A graph that is captured across this call would set these very numbers at each launch, so a caller that
/// replays a step calls it before the graph.
void begin_step(const cuda_stream& s, std::uint64_t step, std::uint64_t ticket = 0);

/// What the end of a step says, in pinned memory of the host.
struct alignas(64) step_record {
  float loss = 0;
  double squared_norm = 0; ///< of the gradient, if it was asked for
  fault_word fault;        ///< its cause is 0 if no kernel found anything wrong
  std::uint64_t begun = 0; ///< when the step ran, in ns by the GPU's clock
  std::uint64_t ended = 0;
  std::uint64_t ticket = 0; ///< that begin_step() gave the step; it is written last

  /// Whether the step with this ticket, or a later one, has written its record. Then all of it can be read.
  bool has(std::uint64_t wanted) const noexcept {
    return std::atomic_ref(const_cast<std::uint64_t&>(ticket)).load(std::memory_order_acquire) >= wanted;
  }
};

/// Queues a kernel that writes the record of all work before it and forgets the fault. The host reads it when
/// an event behind it has passed, or the record has the step's ticket.
///
/// Shapes  loss: float32[1], squared_norm: float64[1] or null, both on the GPU; record: pinned.
/// Errors  device_error.
void write_record(const cuda_stream& s, const float* loss, const double* squared_norm, step_record* record);

} // namespace mailgrad::cuda
