#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace mailgrad::simulated_gpu {

/// A stack that code runs on until it switches to another one, of which the sanitizers know.
///
/// Threads all switches are made on one thread of the host.
class fibre {
public:
  /// The stack that runs now.
  fibre();
  /// A stack of its own, on which `body` runs when it is first switched to; `body` never returns.
  explicit fibre(void (*body)());
  fibre(const fibre&) = delete;
  fibre& operator=(const fibre&) = delete;
  ~fibre();

  /// Leaves `from`, which runs now, and goes on with this one. Returns when somebody switches to `from`.
  void go_on_from(fibre& from);

private:
  static void begin();

  void (*body_)() = nullptr;
  void* mapped_ = nullptr; ///< the stack and a page below it that must not be touched
  void* top_ = nullptr;    ///< where the registers are kept while it does not run
  const void* bottom_ = nullptr;
  std::size_t bytes_ = 0;
  [[maybe_unused]] void* fake_stack_ = nullptr; ///< AddressSanitizer's
  void* order_;                                 ///< ThreadSanitizer's
};

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
