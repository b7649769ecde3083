#pragma once

#include "schedule.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace mailgrad::simulated_gpu {

/// A thread of a block. A type of its own also keeps what the standard library makes of it apart from what
/// code with ThreadSanitizer in it uses: the linker takes only one of two functions of the same name.
struct thread_number {
  std::size_t value;
};
using thread_numbers = std::vector<thread_number>;
thread_numbers first_numbers(std::size_t n);

/// Numbers that look drawn (SplitMix64).
class drawn_numbers {
public:
  explicit drawn_numbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t limit);

private:
  std::uint64_t state_;
};

/// The threads of a block that can run, in the order of a schedule.
class ready_threads {
public:
  static constexpr std::size_t warp = 32;

  /// `number` makes shuffled orders of one seed differ.
  ready_threads(const schedule& order, std::uint64_t number)
      : order_(order), drawn_(order.seed * 7919 + number) {}

  bool empty() const noexcept { return waiting_.empty(); }
  thread_number take() {
    const thread_number next = waiting_.front();
    waiting_.pop_front();
    return next;
  }
  /// Adds threads, which are given in ascending order: before all others if one warp is to get far. Their
  /// order there is lost.
  void add(thread_numbers& threads);

private:
  void arrange_by_warps(thread_numbers& threads);

  schedule order_;
  drawn_numbers drawn_;
  std::deque<thread_number> waiting_;
};

/// 0 to n-1 in the order of a schedule.
thread_numbers arranged_blocks(const schedule& order, std::uint64_t number, std::size_t n);

} // namespace mailgrad::simulated_gpu
