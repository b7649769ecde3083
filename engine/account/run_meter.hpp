#pragma once

#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/optim/identity.hpp>
#include <mailgrad/optim/schedule.hpp>

#include <deque>

namespace mailgrad {

class interval_clock {
public:
  interval_clock(const interval& every, std::uint64_t steps_per_epoch)
      : steps_(every.epochs > 0 ? every.epochs * std::max<std::uint64_t>(1, steps_per_epoch) : every.steps),
        span_(every.span), next_step_(steps_), next_time_(span_) {}
  /// Whether an interval has ended since the last call that said so. Several at once count as one.
  bool ended(std::uint64_t steps, instant elapsed) {
    if (steps_ > 0 && steps >= next_step_) {
      next_step_ = (steps / steps_ + 1) * steps_;
      return true;
    }
    if (span_.count() > 0 && elapsed >= next_time_) {
      next_time_ = (elapsed / span_ + 1) * span_;
      return true;
    }
    return false;
  }

private:
  std::uint64_t steps_;
  instant span_;
  std::uint64_t next_step_;
  instant next_time_;
};

/// What a worker did since it last told.
struct worker_share {
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  double loss_sum = 0;     ///< over the samples
  std::int64_t waited = 0; ///< ns
};

struct shard_counts {
  shard_index shard;
  version_number version;
  std::uint64_t produced = 0; ///< gradients that arrived
  std::uint64_t discarded = 0;
  std::uint64_t applied = 0; ///< each by itself
  std::uint64_t merged = 0;  ///< in a batch
};

struct run_scale {
  std::uint64_t steps_per_epoch = 1;
  double learning_rate = 0; ///< before its schedule
  learning_rate_schedule schedule{};
};

/// Sums what workers and shards tell during a run, and makes a line of it now and then.
class run_meter {
public:
  run_meter(run_scale scale, const interval& every);
  /// Counts go on from what an earlier process of the run had done in so much time. Called before add().
  void resume(const worker_share& done, instant elapsed);

  void add(const worker_share& x);
  /// Gaps of gradients that a shard took, with its counts; without them those that a worker of hogwild wrote.
  void add(const staleness_histogram& gaps, const std::optional<shard_counts>& shard);

  std::uint64_t steps() const noexcept { return steps_; }
  bool due(instant elapsed) { return clock_.ended(steps_, elapsed); } ///< whether it is time for a line
  /// The line of this moment, `elapsed` after this process began. With it the means of the next line begin.
  metrics_line take(instant elapsed, const std::optional<evaluation_made>& test = {});
  /// The last line, with the time, counts, waits and tests of `known`. None falls behind an earlier line.
  metrics_line close(const metrics_line& known);
  /// The gaps of the gradients that the last line tells of.
  const staleness_histogram& gaps_of_line() const noexcept { return gaps_of_line_; }

private:
  double rate() const {
    return learning_rate(scale_.schedule, scale_.learning_rate, std::max<std::uint64_t>(1, updates_));
  }
  double pace(double now);

  run_scale scale_;
  interval_clock clock_;
  std::uint64_t steps_ = 0;
  std::uint64_t samples_ = 0;
  std::uint64_t updates_ = 0;
  std::int64_t waited_ = 0;
  std::uint64_t written_ = 0; ///< in the block
  shard_counts first_shard_;
  instant elapsed_before_{0}; ///< in earlier processes

  struct mark {
    double time_s = 0;
    std::uint64_t samples = 0;
  };
  std::deque<mark> marks_{mark{}}; ///< the first is of the line from which samples a second are counted

  // Since the last line:
  double loss_sum_ = 0;
  std::uint64_t samples_before_ = 0;
  staleness_histogram gaps_;

  staleness_histogram gaps_of_line_;
};

} // namespace mailgrad
