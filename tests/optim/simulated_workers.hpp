#pragma once

#include <mailgrad/optim/policies/policy_spec.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <vector>

// The server loop that policy.hpp shows, on a virtual clock. Workers only take time for their gradients;
// there are no messages and no weights. The numbers that it counts are known in closed form.

namespace mailgrad::testing {

/// Draws the seconds that `worker` takes for its next gradient.
using service_law = std::function<double(std::uint32_t worker, std::mt19937_64& random)>;

inline service_law exponential(double mean = 1) {
  return [mean](std::uint32_t, std::mt19937_64& random) {
    return std::exponential_distribution<double>(1 / mean)(random);
  };
}

inline service_law fixed_times(std::vector<double> seconds) {
  return [seconds = std::move(seconds)](std::uint32_t worker, std::mt19937_64&) { return seconds[worker]; };
}

class simulated_workers {
public:
  simulated_workers(policy& asked, std::uint32_t workers, service_law law, std::uint64_t seed = 1)
      : policy_(asked), law_(std::move(law)), random_(seed), workers_(workers) {
    for (std::uint32_t r = 0; r < workers; ++r) policy_.join({r});
    for (std::uint32_t r = 0; r < workers; ++r) start(r);
  }

  /// Runs until `more` further gradients have come.
  void run(std::uint64_t more) {
    while (more-- > 0) take(next());
  }
  /// Runs until the weights have this version.
  void run_to_version(std::uint64_t version) {
    while (version_ < version) take(next());
  }

  double now = 0; ///< seconds
  std::uint64_t gradients = 0, updates = 0, applied = 0, discarded = 0;
  std::uint64_t gaps_applied = 0, gaps_discarded = 0; ///< sums of the gaps at application and at arrival
  std::uint64_t largest_gap = 0;
  std::uint64_t largest_lead = 0; ///< steps that a worker was ahead of the slowest when it began one
  std::vector<std::uint64_t> versions_applied; ///< the versions that the applied gradients were computed from

  /// The sum over all computing workers of the versions made since they read the weights.
  std::uint64_t ages_in_flight() const {
    std::uint64_t sum = 0;
    for (const worker& w : workers_)
      if (!w.waits) sum += version_ - w.version_read;
    return sum;
  }

private:
  struct worker {
    std::uint64_t steps = 0;
    std::uint64_t version_read = 0;
    bool waits = true;
  };
  struct event {
    double at;
    std::uint64_t number; ///< orders events of the same time
    std::uint32_t worker;
    bool operator<(const event& other) const {
      return std::pair(at, number) > std::pair(other.at, other.number);
    }
  };

  void start(std::uint32_t r) {
    worker& w = workers_[r];
    std::uint64_t slowest = w.steps;
    for (const worker& other : workers_) slowest = std::min(slowest, other.steps);
    largest_lead = std::max(largest_lead, w.steps - slowest);
    if (policy_.renews({r})) w.version_read = version_;
    w.waits = false;
    events_.push({now + law_(r, random_), number_++, r});
  }

  event next() {
    const event e = events_.top();
    events_.pop();
    now = e.at;
    return e;
  }

  void take(const event& e) {
    worker& w = workers_[e.worker];
    ++gradients;
    w.waits = true;
    const decision d = policy_.judge(
        {{e.worker}, ++w.steps, w.version_read, version_, static_cast<std::int64_t>(now * 1e9) + 1});
    if (d.what == verdict::discard) {
      ++discarded;
      gaps_discarded += version_ - w.version_read;
    } else if (d.what == verdict::defer) {
      deferred_.push_back(w.version_read);
    } else {
      batch_.push_back(w.version_read);
      if (d.what == verdict::apply || policy_.batch_complete()) apply(d.what == verdict::merge);
    }
    for (std::uint32_t r = 0; r < workers_.size(); ++r)
      if (workers_[r].waits && policy_.may_start({r})) start(r);
  }

  void apply(bool batch) {
    const std::size_t first = policy_.takes_first();
    const std::size_t taken = first == 0 ? batch_.size() : std::min(first, batch_.size());
    const auto end = batch_.begin() + static_cast<std::ptrdiff_t>(taken);
    for (auto read = batch_.begin(); read != end; ++read) {
      gaps_applied += version_ - *read;
      largest_gap = std::max(largest_gap, version_ - *read);
      versions_applied.push_back(*read);
    }
    applied += taken;
    batch_.erase(batch_.begin(), end);
    ++version_;
    ++updates;
    if (!batch) return;
    policy_.batch_applied();
    if (policy_.rounds_over() == rounds_) return;
    rounds_ = policy_.rounds_over();
    batch_.swap(deferred_);
  }

  policy& policy_;
  service_law law_;
  std::mt19937_64 random_;
  std::vector<worker> workers_;
  std::priority_queue<event> events_;
  std::uint64_t number_ = 0;
  std::uint64_t version_ = 0;
  std::uint64_t rounds_ = 0;
  std::vector<std::uint64_t> batch_;    ///< the versions that its gradients were computed from
  std::vector<std::uint64_t> deferred_; ///< those of the next round
};

} // namespace mailgrad::testing
