#include <mailgrad/actors/shard/parameter_actor.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <fmt/format.h>

#include <string>

// What a parameter actor does when memory of its card is lacking: it keeps its weights for whoever asks.

namespace mailgrad {
using messaging::on, messaging::send, messaging::sender_of;

/// A card that lacks memory works on, and an update that could not begin has changed nothing.
void parameter_actor::fail(const std::string& why) {
  failure_ = why;
  for (const worker_slot& worker : workers_.all())
    if (worker.device) send(self_, worker.device, shard_failed{options_.weights->index(), why});
  if (const auto number = cut_.give_up()) drop_checkpoint(*number, cut_.collector());
  self_->become(failed());
}

/// A collector that is not known yet comes with a mark, or asks itself.
void parameter_actor::drop_checkpoint(std::uint64_t number, const caf::actor& collector) {
  const std::string part = fmt::format("shard {}", options_.weights->index().value);
  if (collector) send(self_, collector, checkpoint_failed{number, part, *failure_});
}

caf::behavior parameter_actor::failed() {
  return {
      on(self_,
         [this](const push_gradient& x) {
           if (!workers_.awaits(x.header.id)) return;
           workers_.admit(x, options_.time->now());
           workers_.lose_unjudged(x.header.id.worker);
         }),
      on(self_,
         [this](const join_shard& x) {
           workers_.join(x);
           send(self_, x.device, shard_failed{options_.weights->index(), *failure_});
         }),
      on(self_, [this](const worker_left& x) { workers_.leave(x); }),
      on(self_, [this](const tell_trained& x) { return trained(x); }),
      on(self_, [this](const foretell_gradient& x) { return foretell(x); }),
      on(self_, [](const order_entry&) {}),
      on(self_, [](const switch_policy&) {}),
      on(self_, [](const free_credit&) {}),
      on(self_, [](const window_over&) {}),
      on(self_, [](const go_on&) {}),
      on(self_, [this](const checkpoint_mark& x) { drop_checkpoint(x.number, x.collector); }),
      on(self_, [this](const take_checkpoint& x) { drop_checkpoint(x.number, sender_of(self_)); }),
      on(self_, [this](const give_up&) { quit_when_idle(); }),
      on(self_, [this](const report_shard&) { on_report_asked(); }),
      on(self_, [this](const trace_taken& x) { watch_.on_taken(x); }),
      on(self_, [this](const read_shard& x) { on_read(x, sender_of(self_)); }),
      on(self_, [this](const weights_copied&) { readers_.serve(); }),
      on(self_, [this](const copy_books&) { return books(); }),
      on(self_, [this](const name_waits&) { name_waits_to(sender_of(self_)); }),
  };
}

} // namespace mailgrad
