#include <mailgrad/actors/run/late_workers.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>

#include <exception>
#include <utility>

namespace mailgrad {
using messaging::drop_others, messaging::hold_others, messaging::on, messaging::send, messaging::sender_of;

/// The coordinator may ask while its spawner still prepares other workers, and may yet be refused.
caf::behavior late_workers::make_behavior() {
  hold_others(self_);
  return held();
}

caf::behavior late_workers::held() {
  return {
      on(self_,
         [this](const go_on&) {
           drop_others(self_);
           self_->become(bringing());
         }),
      on(self_, [this](const give_up&) { self_->quit(); }),
  };
}

caf::behavior late_workers::bringing() {
  return {
      on(self_, [this](const bring_worker& x) { bring(x); }),
      on(self_,
         [this](const give_up&) {
           for (const caf::actor& a : std::exchange(brought_, {})) send(self_, a, give_up{});
           self_->quit();
         }),
  };
}

void late_workers::bring(const bring_worker& x) {
  const caf::actor coordinator = sender_of(self_);
  try {
    for (caf::actor& a : spawn_(x.worker, x.life, coordinator)) brought_.push_back(std::move(a));
  } catch (const std::exception& e) {
    send(self_, coordinator, worker_lost{x.worker, e.what(), x.life});
  }
}

} // namespace mailgrad
