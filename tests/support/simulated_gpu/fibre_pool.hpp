#pragma once

#include "fibre.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace mailgrad::simulated_gpu {

inline constexpr std::size_t most_threads = 1024; ///< of a block

/// Fibres that are used by one block after another, since a stack is dear to make.
///
/// Its room never moves: ThreadSanitizer would take a move for a race of the streams that two blocks belong
/// to.
class fibre_pool {
public:
  explicit fibre_pool(void (*body)()) : body_(body) { free_.reserve(most_threads); }

  fibre* take() {
    if (free_.empty()) return new fibre(body_);
    fibre* const taken = free_.back().release();
    free_.pop_back();
    return taken;
  }
  /// For a fibre that waits to run `body` once more.
  void give_back(fibre* used) { free_.emplace_back(used); }

private:
  void (*body_)();
  std::vector<std::unique_ptr<fibre>> free_;
};

} // namespace mailgrad::simulated_gpu
