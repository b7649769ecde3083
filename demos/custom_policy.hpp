#pragma once

#include <mailgrad/optim/policies/custom_policy.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

/// Gives each worker its turn: a worker may start its next step when all others have come as far, but for
/// `lead` steps. It is what `ssp` does, written anew in thirty lines, and with one difference: a gradient
/// that is more than twice as stale as the lead allows on average is dropped.
class fair_turns final : public mailgrad::policy {
public:
  static constexpr std::string_view policy_name = "fair-turns";

  /// The numbers of "fair-turns:1", and how many workers the run has.
  fair_turns(std::uint64_t lead, mailgrad::world_size workers)
      : lead_(lead), most_stale_(2 * (lead + 1) * workers.value) {}

  std::string_view name() const noexcept override { return policy_name; }
  bool shards_agree() const noexcept override { return true; } // as it drops gradients

  /// The lab does not compute gradients that are older than this.
  std::optional<std::uint64_t> most_stale() const noexcept override { return most_stale_; }

  /// A worker that joins begins where the slowest stands, so that nobody waits for what it missed.
  void join(mailgrad::rank worker) override { steps_[worker] = steps_.empty() ? 0 : slowest(); }
  void leave(mailgrad::rank worker) override { steps_.erase(worker); }

  mailgrad::decision judge(const mailgrad::gradient_stamp& g) override {
    ++steps_[g.worker];
    if (g.version_now - g.version_read > most_stale_) return {mailgrad::verdict::discard, "too stale"};
    return {mailgrad::verdict::apply};
  }
  bool batch_complete() const override { return false; } // it merges none
  void batch_applied() override {}

  bool may_start(mailgrad::rank worker) const override { return steps_.at(worker) <= slowest() + lead_; }

  /// For checkpoints: one function writes the state, and reads it again.
  void keep(mailgrad::archive& a) override {
    std::vector<std::pair<mailgrad::rank, std::uint64_t>> steps(steps_.begin(), steps_.end());
    a.version(1);
    a.field("steps", steps);
    steps_ = {steps.begin(), steps.end()};
  }

private:
  std::uint64_t slowest() const {
    std::uint64_t least = steps_.begin()->second;
    for (const auto& [worker, steps] : steps_) least = std::min(least, steps);
    return least;
  }

  std::uint64_t lead_, most_stale_;
  std::map<mailgrad::rank, std::uint64_t> steps_; // of each worker under this policy
};
