#include <mailgrad/actors/run/staleness_tracker.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <bit>

namespace mailgrad {
using messaging::on, messaging::send, messaging::sender_of;

namespace {

double loss_sum(const worker_progress& x) { return std::bit_cast<double>(x.loss_sum_bits); }

} // namespace

staleness_tracker::staleness_tracker(caf::event_based_actor* self, staleness_tracker_options options)
    : self_(self), options_(std::move(options)), started_(options_.time->now()) {}

caf::behavior staleness_tracker::tracking() {
  return {
      on(self_, [this](const worker_progress& x) { on_progress(x); }),
      on(self_, [this](const give_up&) { self_->quit(); }),
      on(self_,
         [this](const staleness_observed& x) {
           gaps_.merge(x.gaps);
           if (watcher_) window_.gaps.merge(x.gaps);
         }),
      on(self_,
         [this](const watch_signals& x) {
           watcher_ = sender_of(self_);
           window_steps_ = x.steps;
         }),
  };
}

void staleness_tracker::on_progress(const worker_progress& x) {
  if (x.steps == 0) return;
  progress_.steps += x.steps;
  progress_.samples += x.samples;
  progress_.loss = loss_sum(x) / static_cast<double>(x.steps);
  progress_.staleness_mean = gaps_.mean();
  progress_.elapsed = options_.time->now() - started_;
  if (options_.on_progress) options_.on_progress(progress_);
  if (watcher_) add_to_window(x);
}

void staleness_tracker::add_to_window(const worker_progress& x) {
  window_.steps += x.steps;
  window_.loss_sum += loss_sum(x);
  window_.span += x.span;
  window_.barrier_wait += x.barrier_wait;
  if (window_.steps < window_steps_) return;
  if (!window_.gaps.empty()) staleness_ = window_.gaps.mean();
  const double share =
      window_.span > 0 ? static_cast<double>(window_.barrier_wait) / static_cast<double>(window_.span) : 0;
  send(self_, watcher_,
       signals_observed{
           {window_.steps, window_.loss_sum / static_cast<double>(window_.steps), staleness_, share}});
  window_ = {};
}

} // namespace mailgrad
