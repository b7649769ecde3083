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

struct switch_advice {
  std::string policy;
  std::string why;
};

/// When `auto` switches: "auto:window=200,wait=0.2".
struct auto_options {
  std::uint64_t window = 100; ///< steps of each worker that are judged together, at least 1
  double wait = 0.1;          ///< part of their time that workers may wait at a barrier, below 1
  double harm = 0.2;          ///< how far the loss may rise, as a part of its best
};

/// Reads "auto", alone or with settings.
/// Errors  std::invalid_argument, in one line with the nearest right name or the range of a value.
auto_options parse_auto(std::string_view text);

/// The rule of `--policy auto`: in step as long as that costs little, asynchronous while stale gradients do
/// no harm.
///
///     sync --workers wait more than `wait` of their time--> async
///     async --the loss is `harm` above its best, gradients are stale--> sync, where they may wait twice as long
///
/// A rise counts only if it is also a hundredth of the loss that the run began with: small losses rise by
/// chance. The learning rate stays as it is. M workers in `async` make M updates where `sync` makes one by
/// the mean of M gradients, so they move the weights up to M times as far. Choose a rate that `async` bears.
/// Source  Li, Mangoubi, Xu & Guo, "Sync-Switch: hybrid parameter synchronization for distributed deep
///         learning", ICDCS 2021, arXiv:2104.08364: first synchronous, then asynchronous, back for
///         stragglers' sake. Differs: it finds the step of the switch by trials before the run; here a rule
///         finds it on what the run shows. It divides the learning rate by M at the switch to asynchronous
///         training; here nothing changes it.
/// Threads one caller at a time.
class auto_rule {
public:
  static constexpr std::string_view policy_name = "auto";
  static constexpr std::string_view first_policy = "sync";
  explicit auto_rule(const auto_options& options = {}) : options_(options), bearable_(options.wait) {}
  /// `now` is the policy that the signals were measured under.
  std::optional<switch_advice> judge(const run_signals& s, std::string_view now);

private:
  bool does_harm(double loss) const;

  auto_options options_;
  double bearable_;                  ///< barrier share
  std::optional<double> first_loss_; ///< of all windows
  double best_loss_ = std::numeric_limits<double>::infinity();
};

} // namespace mailgrad
