#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace mailgrad {

/// What was measured over a window of a run.
struct run_signals {
  std::uint64_t steps = 0;  ///< mini-batches, by all workers
  double loss = 0;          ///< their mean
  double staleness = 0;     ///< mean version gap of the gradients applied
  double barrier_share = 0; ///< part of the workers' time that they waited at a barrier
};

/// A policy to switch to, and the reason in words.
struct switch_advice {
  std::string policy;
  std::string why;
};

/// The rule of `--policy auto`: in step as long as that costs little, asynchronous while stale gradients do no harm.
///
///     sync --workers wait more than a tenth of their time--> async
///     async --the loss is a fifth above its best, gradients are stale--> sync; next time they may wait twice as long
///
/// Source  Li, Mangoubi, Xu & Guo, "Sync-Switch: hybrid parameter synchronization for distributed deep learning", ICDCS
///         2021, arXiv:2104.08364: first synchronous, then asynchronous, back for stragglers' sake. Differs: it finds the
///         step of the switch by trials before the run; here a rule finds it on what the run shows.
/// Threads one caller at a time.
class auto_rule {
public:
  static constexpr std::string_view policy_name = "auto";
  static constexpr std::string_view first_policy = "sync";

  /// `now` is the policy that the signals were measured under.
  std::optional<switch_advice> judge(const run_signals& s, std::string_view now);

private:
  double bearable_ = 0.1; ///< barrier share
  double best_loss_ = std::numeric_limits<double>::infinity();
};

} // namespace mailgrad
