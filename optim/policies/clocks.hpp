#pragma once

#include <mailgrad/optim/policies/policy.hpp>

#include <algorithm>
#include <map>
#include <utility>

namespace mailgrad {

/// How many steps each worker has finished: the vector clock of a stale-synchronous run.
class worker_clocks {
public:
  /// A worker that joins begins where the slowest worker stands, so that none waits for the steps it missed.
  void join(rank worker) {
    const std::uint64_t begin = slowest().value_or(0);
    leave(worker);
    if (clocks_.size() <= worker.value) clocks_.resize(worker.value + 1);
    clocks_[worker.value] = begin;
    put_in(begin);
  }
  void leave(rank worker) {
    if (!present(worker)) return;
    take_out(of(worker));
    clocks_[worker.value].reset();
  }
  void tick(rank worker) {
    const std::uint64_t before = (*clocks_[worker.value])++;
    take_out(before);
    put_in(before + 1);
  }
  bool present(rank worker) const { return worker.value < clocks_.size() && clocks_[worker.value]; }
  std::uint64_t of(rank worker) const { return *clocks_[worker.value]; }
  /// The fewest steps that a worker of the run has finished; nothing if there is no worker.
  std::optional<std::uint64_t> slowest() const {
    if (standing_.empty()) return std::nullopt;
    return standing_.begin()->first;
  }
  std::uint64_t lead(rank worker) const { return of(worker) - *slowest(); }
  /// Whether no other worker has finished more steps.
  bool is_fastest(rank worker) const { return standing_.rbegin()->first == of(worker); }
  std::size_t size() const noexcept { return clocks_.size(); }
  /// Reading leaves a clock for each worker that has joined before.
  void keep(archive& a) {
    const std::size_t joined = clocks_.size();
    a.field("clocks", clocks_);
    clocks_.resize(std::max(joined, clocks_.size()));
    standing_.clear();
    for (const auto& clock : clocks_)
      if (clock) put_in(*clock);
  }

private:
  using standing = std::map<std::uint64_t, std::uint32_t>;

  void put_in(std::uint64_t clock) {
    const auto found = standing_.find(clock);
    if (found != standing_.end()) {
      ++found->second;
    } else if (spare_.empty()) {
      standing_.emplace(clock, 1);
    } else {
      spare_.back().key() = clock;
      spare_.back().mapped() = 1;
      standing_.insert(std::move(spare_.back()));
      spare_.pop_back();
    }
  }
  void take_out(std::uint64_t clock) {
    const auto found = standing_.find(clock);
    if (--found->second == 0) spare_.push_back(standing_.extract(found));
  }

  std::vector<std::optional<std::uint64_t>> clocks_; ///< by rank; nothing for a worker that has left
  standing standing_;                                ///< how many workers have finished so many steps
  std::vector<standing::node_type> spare_;           ///< counts of nobody, so that a step allocates nothing
};

} // namespace mailgrad
