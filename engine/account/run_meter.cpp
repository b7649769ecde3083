#include <mailgrad/engine/account/run_meter.hpp>

namespace mailgrad {

namespace {

/// Over a shorter time, what workers told about ten times a second would not be what was trained.
constexpr double shortest_s = 0.5;

double per(double sum, std::uint64_t n) { return sum / static_cast<double>(std::max<std::uint64_t>(1, n)); }

} // namespace

run_meter::run_meter(run_scale scale, const interval& every)
    : scale_(std::move(scale)), clock_(every, scale_.steps_per_epoch) {}

void run_meter::resume(const worker_share& done, instant elapsed) {
  steps_ = done.steps;
  samples_ = samples_before_ = done.samples;
  waited_ = done.waited;
  elapsed_before_ = elapsed;
  marks_ = {mark{in_seconds(elapsed), done.samples}};
  clock_.ended(steps_, instant{0});
}

void run_meter::add(const worker_share& x) {
  steps_ += x.steps;
  samples_ += x.samples;
  loss_sum_ += x.loss_sum;
  waited_ += x.waited;
}

/// The versions of a shard contain the updates of the block, once the shard has its weights back.
void run_meter::add(const staleness_histogram& gaps, const std::optional<shard_counts>& shard) {
  gaps_.merge(gaps);
  if (!shard) {
    written_ += gaps.total();
    updates_ += gaps.total();
    return;
  }
  updates_ = std::max(updates_, shard->version.value);
  if (shard->shard.value == 0) first_shard_ = *shard;
}

/// Samples a second since the last line that is old enough, or since the beginning.
double run_meter::pace(double now) {
  while (marks_.size() > 1 && now - marks_[1].time_s >= shortest_s) marks_.pop_front();
  const mark from = marks_.front();
  marks_.push_back({now, samples_});
  return now > from.time_s ? static_cast<double>(samples_ - from.samples) / (now - from.time_s) : 0;
}

metrics_line run_meter::take(instant elapsed, const std::optional<evaluation_made>& test) {
  const std::uint64_t samples = samples_ - std::exchange(samples_before_, samples_);
  metrics_line x;
  x.time_s = in_seconds(elapsed_before_ + elapsed);
  x.steps = steps_;
  x.updates = updates_;
  x.samples = samples_;
  x.epoch = per(static_cast<double>(steps_), scale_.steps_per_epoch);
  if (samples > 0) x.train_loss = per(loss_sum_, samples);
  x.learning_rate = rate();
  if (!gaps_.empty()) {
    x.staleness_mean = gaps_.mean();
    x.staleness_p99 = gaps_.quantile(0.99);
  }
  x.computed = first_shard_.produced + written_;
  x.applied = first_shard_.applied + written_;
  x.merged = first_shard_.merged;
  x.discarded = first_shard_.discarded;
  x.samples_per_s = pace(x.time_s);
  x.waiting_s = in_seconds(instant{waited_});
  if (test) {
    (test->held_out ? x.validation_loss : x.test_loss) = test->loss;
    (test->held_out ? x.validation_accuracy : x.test_accuracy) = test->accuracy;
    (test->held_out ? x.validation_rmse : x.test_rmse) = test->rmse;
  }
  loss_sum_ = 0;
  std::swap(gaps_of_line_, gaps_);
  gaps_.clear();
  return x;
}

metrics_line run_meter::close(const metrics_line& known) {
  updates_ = std::max(updates_, known.updates);
  const double time_s = std::max(known.time_s, marks_.back().time_s);
  const instant elapsed{static_cast<std::int64_t>(time_s * 1e9)};
  const metrics_line means = take(elapsed - elapsed_before_);
  metrics_line x = known;
  x.epoch = per(static_cast<double>(known.steps), scale_.steps_per_epoch);
  x.train_loss = means.train_loss;
  x.learning_rate = means.learning_rate;
  x.staleness_mean = means.staleness_mean;
  x.staleness_p99 = means.staleness_p99;
  x.samples_per_s = means.samples_per_s;
  x.updates = updates_;
  x.time_s = time_s;
  x.waiting_s = std::max(known.waiting_s, means.waiting_s);
  // The ledger of the run may be that of another shard than the first, which earlier lines tell of.
  if (known.computed >= means.computed && known.applied >= means.applied && known.merged >= means.merged &&
      known.discarded >= means.discarded)
    return x;
  x.computed = means.computed;
  x.applied = means.applied;
  x.merged = means.merged;
  x.discarded = means.discarded;
  return x;
}

} // namespace mailgrad
