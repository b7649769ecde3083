#include <mailgrad/actors/run/run_observer.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

namespace mailgrad {
using messaging::on, messaging::send, messaging::watch;

caf::behavior run_observer::make_behavior() {
  return {
      on(self_, [this](const event_noted& x) { options_.on_event(x.what); }),
      on(self_,
         [this](const close_metrics& x) {
           watch(self_, x.tracker, end_events{});
           send(self_, x.tracker, x);
         }),
      on(self_,
         [this](const end_events&) {
           options_.on_end();
           self_->quit();
         }),
      on(self_, [this](const give_up&) { self_->quit(); }),
  };
}

} // namespace mailgrad
