#include <mailgrad/actors/run/feeder.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <utility>

namespace mailgrad {
using messaging::on, messaging::send, messaging::sender_of;

namespace {

std::shared_ptr<batch> make_batch(const feeder_options& options) {
  auto made = std::make_shared<batch>();
  shape_batch(*options.samples, options.deal.batch_size, options.nonzeros, *made);
  return made;
}

} // namespace

feeder::feeder(caf::event_based_actor* self, feeder_options options)
    : self_(self), options_(std::move(options)), dealer_(options_.deal),
      batches_([this] { return make_batch(options_); }), log_(self, options_.recorder) {
  if (options_.replayed) replayed_.emplace(options_.replayed);
}

caf::behavior feeder::dealing() {
  return {
      on(self_, [this](const next_batch& x) { on_next(x.worker, sender_of(self_)); }),
      on(self_, [this](const give_up&) { self_->quit(); }),
      on(self_, [this](const stop_dealing&) { stop(); }),
      on(self_, [this](const worker_left& x) { on_leave(x.worker); }),
      on(self_, [this](const end_recording& x) { end(x); }),
      on(self_, [this](const report_feeder&) { return feeder_report{std::move(options_.trace)}; }),
      on(self_, [this](const go_on_dealing& x) { go_on(x); }),
      on(self_,
         [this](const watch_holds&) {
           who_watches_ = sender_of(self_);
           if (holding_) send(self_, who_watches_, step_reached{*holding_});
           tell_if_all_at_switch();
         }),
  };
}

caf::behavior feeder::exhausted() {
  return {
      on(self_, [this](const next_batch&) { send(self_, sender_of(self_), data_exhausted{}); }),
      on(self_, [this](const give_up&) { self_->quit(); }),
      on(self_, [](const stop_dealing&) {}),
      on(self_, [this](const end_recording& x) { end(x); }),
      on(self_, [this](const report_feeder&) { return feeder_report{std::move(options_.trace)}; }),
      on(self_, [](const worker_left&) {}),
      on(self_, [](const go_on_dealing&) {}),
      on(self_, [](const watch_holds&) {}),
  };
}

/// Records a wait that ends now.
void feeder::trace_wait(trace_kind what) {
  if (options_.trace) options_.trace->wait(what, options_.time->now());
}

void feeder::on_next(rank worker, const caf::actor& device) {
  const bool at_switch = replayed_ && replayed_->holds(worker);
  if (holding_ || at_switch) {
    hungry_[worker] = device;
    if (at_switch) replayed_->wait(worker);
    return tell_if_all_at_switch();
  }
  trace_wait(trace_kind::asker);
  const auto deal = deal_to(worker);
  if (!deal) return send(self_, device, data_exhausted{});
  log_.note({worker, deal->number}, options_.recorder ? options_.time->now() : instant{0});
  const std::shared_ptr<batch> filled = batches_.take();
  fill_batch(*options_.samples, deal->samples, *filled);
  filled->number = deal->number;
  filled->epoch = deal->epoch;
  if (options_.trace) {
    const instant now = options_.time->now();
    options_.trace->work({trace_kind::deal, instant{0}, now, worker.value, deal->number});
  }
  send(self_, device, dealt_batch{filled});
  ++dealt_;
  hold_if_reached();
}

std::optional<deal> feeder::deal_to(rank worker) {
  if (!replayed_) return dealer_.next(worker.value);
  const std::optional<std::uint64_t> number = replayed_->next(worker);
  return number ? dealer_.batch(*number) : std::nullopt;
}

void feeder::on_leave(rank worker) {
  dealer_.leave(worker.value);
  hungry_.erase(worker);
  if (replayed_) replayed_->leave(worker);
  tell_if_all_at_switch();
}

/// Tells nothing before an actor watches.
void feeder::tell_if_all_at_switch() {
  if (!replayed_ || !who_watches_) return;
  if (const auto number = replayed_->reached_switch()) send(self_, who_watches_, step_reached{*number});
}

void feeder::hold_if_reached() {
  if (options_.hold_at.empty() || dealt_ < options_.hold_at.front()) return;
  holding_ = options_.hold_at.front();
  options_.hold_at.pop_front();
  if (who_watches_) send(self_, who_watches_, step_reached{*holding_});
}

void feeder::go_on(const go_on_dealing& x) {
  dealer_.deal_by(x.by_rank ? deal_mode::by_rank : deal_mode::on_demand);
  const std::optional<std::uint64_t> held_at =
      replayed_ ? std::optional(replayed_->switches_passed() + 1) : holding_;
  if (held_at != x.held_at) return;
  if (holding_) trace_wait(trace_kind::hold);
  if (replayed_) replayed_->pass_switch();
  holding_.reset();
  hold_if_reached();
  for (const auto& [worker, device] : std::exchange(hungry_, {})) on_next(worker, device);
}

void feeder::end(const end_recording& x) {
  log_.flush();
  if (options_.recorder) send(self_, options_.recorder, end_recording{x.what});
}

void feeder::stop() {
  if (holding_) trace_wait(trace_kind::hold);
  for (const auto& [worker, device] : hungry_) send(self_, device, data_exhausted{});
  self_->become(exhausted());
}

} // namespace mailgrad
