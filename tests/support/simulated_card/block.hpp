#pragma once

#include "fibre.hpp"
#include "language/launch.hpp"
#include "ready_threads.hpp"
#include "sanitizers.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

namespace mailgrad::simulated_card {

/// A block of a kernel that runs: each thread is a fibre, which goes on until it waits for others or ends.
///
/// What the card would leave undefined stops the block with an account that names the kernel, file and line.
class block {
public:
  block(const kernel_launch& launch, const schedule& order, std::uint64_t number, std::byte* shared)
      : launch_(launch), shared_(shared), ready_(order, number) {}

  /// Runs all threads; returns what went wrong, if anything did.
  std::optional<std::string> run(order_point& begin, order_point& end);

  /// The block that runs now.
  static block& now();
  std::byte* shared() const noexcept { return shared_; }

  // What the threads of the block call.
  unsigned barrier(bool mine, std::source_location where);
  void meet(unsigned mask, std::uint64_t value, bool ordered, std::source_location where);
  std::uint64_t value_of(unsigned lane);
  /// The lanes that this lane met last and that handed in something else than 0.
  unsigned bits_of_warp();
  unsigned lane() const noexcept { return static_cast<unsigned>(current_ % warp); }

private:
  static constexpr std::size_t warp = ready_threads::warp;
  enum class phase : std::uint8_t { unstarted, running, at_barrier, in_warp, ended };
  struct thread {
    fibre* stack = nullptr;
    phase now = phase::unstarted;
    std::source_location where; ///< it waits
    unsigned mask = 0;
    std::uint64_t handed_in = 0;
  };
  struct warp_state {
    unsigned existing = 0, arrived = 0, ended = 0; ///< bits of lanes
    std::array<std::uint64_t, warp> values{};      ///< handed in where each lane met others last
    order_point order;
  };

  static void thread_body();
  void run_current();
  void go_on();
  void enter(std::size_t next);
  void wait_as(phase why, std::source_location where);
  void release_barrier();
  void end_current();
  [[noreturn]] void stop(std::string why);
  std::string stuck() const;
  std::string name_of(std::size_t number) const;

  const kernel_launch& launch_;
  std::byte* shared_;
  ready_threads ready_;
  std::vector<thread> threads_;
  std::vector<warp_state> warps_;
  std::vector<fibre*> idle_;
  std::size_t current_ = 0, ended_ = 0, at_barrier_ = 0, last_ended_ = 0, last_at_barrier_ = 0;
  unsigned votes_ = 0, decided_ = 0;
  fibre* outside_ = nullptr;
  order_point* begin_ = nullptr;
  order_point* end_ = nullptr;
  order_point barrier_;
  std::optional<std::string> failure_;
};

} // namespace mailgrad::simulated_card
