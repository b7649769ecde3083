#include <mailgrad/actors/feeder.hpp>

namespace mailgrad {

namespace {

std::shared_ptr<batch> make_batch(const feeder_options& options) {
  auto made = std::make_shared<batch>();
  shape_batch(*options.samples, options.deal.batch_size, options.nonzeros, *made);
  return made;
}

} // namespace

feeder::feeder(caf::event_based_actor* self, feeder_options options)
    : self_(self), options_(std::move(options)), dealer_(options_.deal),
      batches_([this] { return make_batch(options_); }) {}

caf::behavior feeder::dealing() {
  return {
      on(self_, [this](const next_batch& x) { on_next(x); }),
      on(self_, [this](const give_up&) { self_->quit(); }),
      on(self_, [this](const stop_dealing&) { self_->become(exhausted()); }),
      on(self_, [this](const worker_left& x) { dealer_.leave(x.worker.value); }),
  };
}

caf::behavior feeder::exhausted() {
  return {
      on(self_, [this](const next_batch&) { send(self_, sender_of(self_), data_exhausted{}); }),
      on(self_, [this](const give_up&) { self_->quit(); }),
      on(self_, [](const stop_dealing&) {}),
      on(self_, [](const worker_left&) {}),
  };
}

void feeder::on_next(const next_batch& x) {
  const auto deal = dealer_.next(x.worker.value);
  if (!deal) return send(self_, sender_of(self_), data_exhausted{});
  const std::shared_ptr<batch> filled = batches_.take();
  fill_batch(*options_.samples, deal->samples, *filled);
  filled->number = deal->number;
  filled->epoch = deal->epoch;
  send(self_, sender_of(self_), dealt_batch{filled});
}

} // namespace mailgrad
