#include <mailgrad/actors/remote/samples_search.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <utility>

namespace mailgrad::remote {
using messaging::on, messaging::send;

samples_search::samples_search(caf::event_based_actor* self, std::shared_ptr<own_samples> here,
                               data_terms wanted, std::shared_ptr<own_samples::answer> answer,
                               caf::actor who_waits)
    : self_(self), here_(std::move(here)), wanted_(std::move(wanted)), answer_(std::move(answer)),
      who_waits_(std::move(who_waits)) {}

caf::behavior samples_search::make_behavior() {
  send(self_, caf::actor_cast<caf::actor>(self_), go_on{});
  return {
      on(self_,
         [this](const go_on&) {
           *answer_ = here_->find(wanted_);
           send(self_, who_waits_, go_on{});
           self_->quit();
         }),
  };
}

} // namespace mailgrad::remote
