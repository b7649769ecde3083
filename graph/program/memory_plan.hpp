#pragma once

#include <cstddef>
#include <vector>

namespace mailgrad {

/// The steps during which a value needs memory: from the step that writes it to the last step that reads it,
/// both included.
struct lifetime {
  std::size_t bytes;
  std::size_t first;
  std::size_t last;
};

struct memory_plan {
  std::vector<std::size_t> offsets; ///< one for each lifetime, a multiple of 64
  std::size_t bytes = 0;            ///< the size of the whole arena
};

/// Places values so that two of them never overlap if both are alive at one step: greedy by size, best fit.
///
/// Source  Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020,
///         arXiv:2001.03288, section 5.2.
memory_plan plan_memory(const std::vector<lifetime>& lifetimes);

} // namespace mailgrad
