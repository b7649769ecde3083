#pragma once

#include <mailgrad/optim/policies/policy.hpp>

#include <algorithm>
#include <optional>
#include <vector>

namespace mailgrad {

/// How many steps each worker has finished: the vector clock of a stale-synchronous run.
class worker_clocks {
public:
  /// A worker that joins begins where the slowest worker stands, so that none waits for the steps it missed.
  void join(rank worker) {
    const std::uint64_t begin = slowest().value_or(0);
    if (clocks_.size() <= worker.value) clocks_.resize(worker.value + 1);
    clocks_[worker.value] = begin;
  }
  void leave(rank worker) {
    if (worker.value < clocks_.size()) clocks_[worker.value].reset();
  }
  void tick(rank worker) { ++*clocks_[worker.value]; }

  bool present(rank worker) const { return worker.value < clocks_.size() && clocks_[worker.value]; }
  std::uint64_t of(rank worker) const { return *clocks_[worker.value]; }

  /// The fewest steps that a worker of the run has finished; nothing if there is no worker.
  std::optional<std::uint64_t> slowest() const {
    std::optional<std::uint64_t> least;
    for (const auto& clock : clocks_)
      if (clock && (!least || *clock < *least)) least = clock;
    return least;
  }
  /// Steps that a worker is ahead of the slowest.
  std::uint64_t lead(rank worker) const { return of(worker) - *slowest(); }

  /// Whether no other worker has finished more steps.
  bool is_fastest(rank worker) const {
    return std::ranges::none_of(clocks_, [&](const auto& clock) { return clock && *clock > of(worker); });
  }

  std::size_t size() const noexcept { return clocks_.size(); }

  /// Reading leaves a clock for each worker that has joined before.
  void keep(archive& a) {
    const std::size_t joined = clocks_.size();
    a.field("clocks", clocks_);
    clocks_.resize(std::max(joined, clocks_.size()));
  }

private:
  std::vector<std::optional<std::uint64_t>> clocks_; ///< by rank; nothing for a worker that has left
};

} // namespace mailgrad
