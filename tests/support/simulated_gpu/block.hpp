#pragma once

#include "fibre.hpp"
#include "gpu_control.hpp"
#include "language/launch.hpp"
#include "sanitizers.hpp"

#include <deque>

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

/// A block of a kernel that runs: each thread is a fibre, which goes on until it waits for others or ends.
///
/// What a GPU would leave undefined stops the block, with an account that names the thread, file and line.
class block {
public:
  block(const kernel_launch& launch, const schedule& order, std::uint64_t number, std::byte* shared)
      : launch_(launch), shared_(shared), ready_(order, number),
        copies_early_(order.far == reach::one_warp_far) {}

  /// Runs all threads, after `begin` and before `end`; returns what went wrong, if anything did.
  std::optional<std::string> run(order_point& begin, order_point& end);

  /// The block that runs now.
  static block& now();
  std::byte* shared() const noexcept { return shared_; }

  // What its threads call.

  /// Waits for all threads; returns how many came with `mine`.
  unsigned barrier(bool mine, std::source_location where);
  /// Waits for the lanes in `mask`.
  void meet(unsigned mask, std::uint64_t value, bool ordered, std::source_location where);
  /// What `lane` handed in where this thread met it last.
  std::uint64_t value_of(unsigned lane);
  /// The lanes that this thread met last and that handed in something else than 0.
  unsigned bits_of_warp() const;
  unsigned lane() const noexcept { return static_cast<unsigned>(current_ % warp); }
  void begin_copy(const later_copy& c, carry_out_copy carry_out);
  void finish_copies(carry_out_copy carry_out);

private:
  static constexpr std::size_t warp = ready_threads::warp;
  enum class phase : std::uint8_t { unstarted, running, at_barrier, in_warp, ended };
  struct thread {
    uint3 index{};
    fibre* stack = nullptr;
    phase now = phase::unstarted;
    std::source_location where; ///< it waits
    unsigned mask = 0;
    std::uint64_t handed_in = 0;
    unsigned ordered = 0;             ///< how often it has met others in order
    std::vector<later_copy> copies{}; ///< begun and not waited for
  };
  struct warp_state {
    unsigned existing = 0, arrived = 0, ended = 0; ///< bits of lanes
    std::array<std::uint64_t, warp> values{};      ///< what each lane handed in where it met others last
    order_point order[2]; ///< in turn: who leaves the next one must not be taken for one who leaves this one
  };

  static void thread_body();
  void run_current();
  void make_threads();
  void add_all();
  fibre* stack_after_end();
  fibre* next_stack();
  void give_stack(thread& t);
  void go_on();
  [[noreturn]] void stop();
  void give_stacks_back();

  // What keeps a thread from waiting where it wants to, if anything does; it is stopped then.
  bool arrive_at_barrier(bool mine, const std::source_location& where);
  bool arrive_in_warp(unsigned mask, std::uint64_t value, const std::source_location& where);
  void release_warp(std::size_t first, unsigned mask);
  bool complain(std::string why);
  std::string stuck() const;
  std::string name_of(std::size_t number) const;

  const kernel_launch& launch_;
  std::byte* shared_;
  ready_threads ready_;
  bool copies_early_; ///< where one warp gets far, its copies get far as well
  std::vector<thread> threads_;
  std::vector<warp_state> warps_;
  std::vector<fibre*> idle_;
  thread_numbers met_; ///< of the warp that goes on; kept for its memory
  std::size_t current_ = 0, ended_ = 0, at_barrier_ = 0, last_ended_ = 0, last_at_barrier_ = 0;
  unsigned votes_ = 0, decided_ = 0; ///< at the barrier
  fibre* outside_ = nullptr;
  order_point* begin_ = nullptr;
  order_point* end_ = nullptr;
  unsigned barriers_ = 0; ///< that all have passed
  order_point barrier_[2];
  std::optional<std::string> failure_;
};

/// Runs all blocks of a kernel, one after the other; returns what went wrong, if anything did. Shared memory
/// of each block is memory of its own, of exact size, and full of ones: not-a-numbers.
std::optional<std::string> run_grid(const kernel_launch& launch, const schedule& order, std::uint64_t number);

/// Why a GPU refuses such a grid, if it does.
std::optional<std::string> refusal_of(const kernel_launch& launch);

} // namespace mailgrad::simulated_gpu
