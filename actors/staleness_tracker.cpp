#include <mailgrad/actors/staleness_tracker.hpp>

namespace mailgrad {

staleness_tracker::staleness_tracker(caf::event_based_actor* self, staleness_tracker_options options)
    : self_(self), options_(std::move(options)), started_(options_.time->now()) {}

caf::behavior staleness_tracker::tracking() {
  return {
      on(self_, [this](const worker_progress& x) { on_progress(x); }),
      on(self_, [this](const give_up&) { self_->quit(); }),
      on(self_, [this](const staleness_observed& x) { gaps_.merge(x.gaps); }),
  };
}

void staleness_tracker::on_progress(const worker_progress& x) {
  if (x.steps == 0) return;
  progress_.steps += x.steps;
  progress_.samples += x.samples;
  progress_.loss = x.loss_sum / static_cast<double>(x.steps);
  progress_.staleness_mean = gaps_.mean();
  progress_.elapsed = options_.time->now() - started_;
  if (options_.on_progress) options_.on_progress(progress_);
}

} // namespace mailgrad
