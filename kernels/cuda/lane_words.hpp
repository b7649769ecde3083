#pragma once

#include <cstdint>

namespace mailgrad::cuda {

/// What a kernel may find wrong in its data.
enum class fault_kind : std::uint32_t { none, label, row };

/// The first thing that a kernel found wrong. A kernel cannot throw, so it writes this and goes on without
/// the element.
struct fault_word {
  std::uint32_t kind = 0;      ///< a fault_kind; kernels compare and swap it, so it is a plain number
  std::uint32_t operation = 0; ///< cuda_stream::operation of the kernel's launch
  std::int64_t found = 0;      ///< the label or row that does not exist
  std::uint64_t limit = 0;     ///< the number of classes, or of rows of the table
};

/// What the kernels of one lane read and write besides their operands, in memory of the card.
struct lane_words {
  std::uint64_t step = 0; ///< random operations draw from their seed and this number
  fault_word fault;
};

} // namespace mailgrad::cuda
