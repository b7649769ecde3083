#include <mailgrad/actors/run/staleness_tracker.hpp>

#include <bit>

namespace mailgrad {

namespace {

double loss_sum(const worker_progress& x) { return std::bit_cast<double>(x.loss_sum_bits); }

} // namespace

staleness_tracker::staleness_tracker(caf::event_based_actor* self, staleness_tracker_options options)
    : actor_part(self), options_(std::move(options)), started_(options_.time->now()),
      meter_(options_.scale, options_.lines), tests_(options_.tests, options_.scale.steps_per_epoch) {
  meter_.resume(options_.done, options_.elapsed);
  const early_stop& enough = options_.enough;
  tests_.ended(enough.counts_tests() ? enough.tests().steps : meter_.steps(), instant{0});
}

caf::behavior staleness_tracker::tracking() {
  return {
      on([this](const worker_progress& x) { on_progress(x); }),
      on([this](const give_up&) { self_->quit(); }),
      on([this](const staleness_observed& x) {
        gaps_.merge(x.gaps);
        meter_.add(x.gaps, x.counts);
        if (watcher_) window_.gaps.merge(x.gaps);
      }),
      on([this](const watch_signals& x) {
        watcher_ = sender();
        window_steps_ = x.steps;
      }),
      on([this](const watch_tests& x) { evaluator_ = x.by; }),
      on([this](const stop_by& x) { stopper_ = x.whom; }),
      on([this](const weights_tested& x) { on_tested(x); }),
      on([this](const close_metrics& x) { close(x.known); }),
  };
}

void staleness_tracker::on_progress(const worker_progress& x) {
  if (x.steps == 0) return;
  progress_.steps += x.steps;
  progress_.samples += x.samples;
  if (x.samples > 0) progress_.loss = loss_sum(x) / static_cast<double>(x.samples);
  progress_.staleness_mean = gaps_.mean();
  progress_.elapsed = options_.time->now() - started_;
  if (options_.on_progress) options_.on_progress(progress_);
  if (watcher_) add_to_window(x);
  if (options_.observer || options_.enough.active()) measure(x);
}

void staleness_tracker::measure(const worker_progress& x) {
  meter_.add({x.steps, x.samples, loss_sum(x), x.sums.waited()});
  if (closed_) return;
  if (meter_.due(progress_.elapsed)) add_line(meter_.take(progress_.elapsed));
  if (!evaluator_ || testing_ || ended_ || !tests_.ended(meter_.steps(), progress_.elapsed)) return;
  testing_ = true;
  send(evaluator_, test_weights{meter_.steps()});
}

/// The line comes when the test has ended, with the counts of that moment. A test that was left out is judged
/// neither way.
void staleness_tracker::on_tested(const weights_tested& x) {
  testing_ = false;
  if (!closed_ && !x.why_left_out.empty()) tell(test_left_out{x.what.steps, x.why_left_out});
  if (closed_ || !x.whole) return;
  tell(x.what);
  add_line(meter_.take(options_.time->now() - started_, x.what));
  const auto why = options_.enough.judge(x.what);
  if (stopper_ && options_.enough.counts_tests()) send(stopper_, tests_judged{options_.enough.tests()});
  end_if(why);
}

void staleness_tracker::add_to_window(const worker_progress& x) {
  window_.steps += x.steps;
  window_.samples += x.samples;
  window_.loss_sum += loss_sum(x);
  window_.span += x.span;
  window_.barrier_wait += x.sums.barrier_wait;
  if (window_.steps < window_steps_) return;
  if (!window_.gaps.empty()) staleness_ = window_.gaps.mean();
  const double share =
      window_.span > 0 ? static_cast<double>(window_.barrier_wait) / static_cast<double>(window_.span) : 0;
  send(watcher_,
       signals_observed{{window_.steps,
                         window_.loss_sum / static_cast<double>(std::max<std::uint64_t>(1, window_.samples)),
                         staleness_, share}});
  window_ = {};
}

} // namespace mailgrad
