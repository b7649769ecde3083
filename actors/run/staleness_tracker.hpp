#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>

namespace mailgrad {

struct staleness_tracker_options {
  std::shared_ptr<const time_source> time;
  std::function<void(const training_progress&)> on_progress; ///< called by the tracker; must not block
  run_scale scale{};
  interval lines{};    ///< how often a line is made of what was told
  interval tests{};    ///< how often an evaluator tests the weights, once watch_tests has named one
  worker_share done{}; ///< by an earlier process of the run, in `elapsed`
  instant elapsed{0};
  caf::actor observer{}; ///< gets the lines and the results of tests; may be null
  /// Judges both. Whoever stop_by names is told when the run is to end, and what checkpoints keep of tests.
  /// If it counts them, the next one comes an interval after the last that it has seen.
  early_stop enough{};
};

/// Gathers what devices and shards tell during a run, for the progress display, auto_rule and the lines of
/// metrics. The exact figures of a finished run do not come from here but from the shards (shard_report). It
/// has no timer: lines and tests become due when a worker tells of its steps.
///
///     tracking --worker_progress, staleness_observed--> tracking --signals_observed--> coordinator
///     tracking --weights_tested, a line is due--> tracking --stop_training, if that is enough--> coordinator
class staleness_tracker : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.staleness-tracker";

  staleness_tracker(caf::event_based_actor* self, staleness_tracker_options options);
  caf::behavior make_behavior() { return tracking(); }

private:
  caf::behavior tracking();
  void on_progress(const worker_progress& x);
  void measure(const worker_progress& x);
  void note(const metrics_line& x) {
    if (const staleness_histogram& gaps = meter_.gaps_of_line(); !gaps.empty())
      tell(gaps_measured{x.steps, x.time_s, gaps});
    tell(x);
  }
  void add_line(const metrics_line& x) {
    note(x);
    end_if(options_.enough.judge(x));
  }
  void tell(const run_event& x) {
    if (options_.observer) send(options_.observer, event_noted{x});
  }
  void end_if(const std::optional<std::string>& enough) {
    if (!enough) return;
    ended_ = true;
    if (stopper_) send(stopper_, stop_training{*enough, true});
  }
  void on_tested(const weights_tested& x);
  void close(const metrics_line& known) {
    closed_ = true;
    note(meter_.close(known));
    send(options_.observer, end_events{});
  }
  void add_to_window(const worker_progress& x);

  staleness_tracker_options options_;
  training_progress progress_;
  staleness_histogram gaps_;
  instant started_;
  run_meter meter_;
  interval_clock tests_;
  caf::actor evaluator_;
  caf::actor stopper_;   ///< ends the run when it has been trained enough
  bool testing_ = false; ///< the evaluator has not answered yet
  bool ended_ = false;   ///< the run has been trained enough, so the weights are tested no more
  bool closed_ = false;  ///< the observer has been told the end

  /// What was told since the last signals_observed.
  struct window {
    std::uint64_t steps = 0;
    std::uint64_t samples = 0;
    double loss_sum = 0;           ///< over the samples
    std::int64_t span = 0;         ///< ns, of all workers
    std::int64_t barrier_wait = 0; ///< ns, of all workers
    staleness_histogram gaps;
  };
  caf::actor watcher_;
  std::uint64_t window_steps_ = 0;
  window window_;
  double staleness_ = 0; ///< the mean of the last window that had gaps
};

} // namespace mailgrad
