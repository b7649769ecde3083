#include <mailgrad/actors/remote/worker_host.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/remote/batch_form.hpp>
#include <mailgrad/actors/remote/gradient_form.hpp>
#include <mailgrad/actors/remote/weights_form.hpp>
#include <mailgrad/engine/plan/worker_terms.hpp>

#include <exception>
#include <utility>

namespace mailgrad::remote {
using messaging::on, messaging::watch;

worker_host::worker_host(caf::event_based_actor* self, worker_host_options options)
    : self_(self), options_(std::move(options)) {}

caf::behavior worker_host::make_behavior() {
  return {
      on(self_,
         [this](const terms_told& x) {
           try {
             begin(x);
           } catch (const std::exception& e) {
             options_.by->leave(std::string("cannot do this work: ") + e.what());
             self_->quit();
           }
         }),
      on(self_,
         [this](const worker_lost& x) {
           if (x.why.empty())
             options_.by->post({duty::host}, {}, kind_of<worker_leaves>(),
                               caf::make_message(worker_leaves{}));
           else
             options_.by->leave("its worker failed: " + x.why);
           self_->quit();
         }),
      on(self_, [this](const give_up&) { self_->quit(); }),
  };
}

worker_peers worker_host::meet(const parameter_layout& layout) {
  caf::actor_system& system = self_->system();
  link& by = *options_.by;
  worker_peers peers{{},
                     by.add_far(system, {duty::feeder}),
                     by.add_far(system, {duty::tracker}),
                     by.add_far(system, {duty::coordinator})};
  for (std::uint32_t s = 0; s < layout.shard_count(); ++s)
    peers.shards.push_back(by.add_far(system, {duty::shard, s}));
  return peers;
}

void worker_host::begin(const terms_told& x) {
  told_terms told = read_terms(x.terms, options_.known);
  worker_terms& terms = told.terms;
  terms.request.devices = {options_.place};
  const exchange_terms exchange{terms.run,     terms.worker,
                                terms.life,    terms.layout,
                                options_.time, std::make_shared<exchange_clock>(terms.layout->shard_count())};
  link& by = *options_.by;
  by.take_form(kind_of<push_gradient>(), std::make_unique<gradient_form>(exchange));
  by.take_form(kind_of<shard_weights>(), std::make_unique<weights_form>(exchange));
  by.take_form(kind_of<dealt_batch>(), std::make_unique<batch_form>());
  const worker_peers peers = meet(*terms.layout);
  worker_surroundings with{std::move(told.model), peers, options_.time};
  const caf::actor worker = by.add({duty::worker, terms.worker.value}, [&] {
    return spawn_worker(self_->system(), terms, std::move(with)).device;
  });
  watch(self_, worker, worker_lost{terms.worker});
  options_.on_begin(worker, peers);
}

} // namespace mailgrad::remote
