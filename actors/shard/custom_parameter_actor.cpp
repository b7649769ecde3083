#include <mailgrad/actors/shard/custom_parameter_actor.hpp>

#include <bit>

namespace mailgrad {

using messaging::on, messaging::send;

custom_parameter_actor::custom_parameter_actor(caf::event_based_actor* self, parameter_actor_options options)
    : self_(self), options_(std::move(options)), workers_(options_.workers), accounts_(options_.workers) {}

caf::behavior custom_parameter_actor::make_behavior() {
  return {
      on(self_,
         [this](const join_shard& x) {
           workers_[x.worker.value].device = x.device;
           on_join(x.worker);
         }),
      on(self_, [this](const push_gradient& x) { take(x); }),
      on(self_,
         [this](const worker_left& x) {
           if (!takes_part(x.worker)) return;
           workers_[x.worker.value] = {nullptr, true};
           on_leave(x.worker);
         }),
      on(self_,
         [this](const report_shard&) {
           return shard_report{weights().index(), weights().version(), accounts_, weights().snapshot()};
         }),
      on(self_, [](const list_wait_reasons&) {}),
      on(self_, [this](const give_up&) { self_->quit(); }),
  };
}

void custom_parameter_actor::take(const push_gradient& x) {
  worker_account& account = account_of(x);
  if (!takes_part(x.header.id.worker) || x.header.id.step <= account.last_step) return; // or a repeat
  account.last_step = x.header.id.step;
  ++account.ledger.produced;
  on_gradient(x);
}

void custom_parameter_actor::count_gap(const push_gradient& x) {
  account_of(x).gaps.count(weights().version() - x.header.version_read);
}

void custom_parameter_actor::apply(const push_gradient& x) {
  count_gap(x);
  const contribution one = contribution_of(x);
  weights().update({&one, 1});
  ++account_of(x).ledger.applied;
}

void custom_parameter_actor::merge(std::span<const push_gradient> gradients,
                                   std::span<const contribution> made) {
  for (const push_gradient& x : gradients) {
    count_gap(x);
    ++account_of(x).ledger.merged;
  }
  weights().update(made);
}

void custom_parameter_actor::discard(const push_gradient& x, const std::string& reason) {
  ++account_of(x).ledger.discarded[reason];
}

void custom_parameter_actor::send_weights(rank worker) {
  const caf::actor& device = workers_[worker.value].device;
  if (!device) return;
  shard_weights reply;
  reply.header.shard = weights().index();
  reply.header.version = weights().version();
  reply.payload.values = weights().snapshot();
  send(self_, device, reply);
}

contribution contribution_of(const push_gradient& x) {
  return {x.payload.values, std::bit_cast<float>(x.header.scale_bits)};
}

} // namespace mailgrad
