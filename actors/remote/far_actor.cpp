#include <mailgrad/actors/remote/far_actor.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/remote/link.hpp>

#include <utility>

namespace mailgrad::remote {

far_actor::far_actor(caf::actor_config& config, std::shared_ptr<link> by, actor_address stands_for)
    : caf::event_based_actor(config), by_(std::move(by)), stands_for_(stands_for) {
  hand_over::release(hand_over::tag(this));
}

/// It hears the order to end, and nothing else.
caf::behavior far_actor::make_behavior() {
  return {[](const step_ended&) {}};
}

bool far_actor::posts(const caf::mailbox_element& what) const {
  caf::message m = messaging::content_of(what);
  const auto kind = kind_of(m);
  if (!kind) return false;
  by_->post(stands_for_, caf::actor_cast<caf::actor>(what.sender), *kind, m);
  return true;
}

#if CAF_MAJOR_VERSION >= 1
bool far_actor::enqueue(caf::mailbox_element_ptr what, caf::scheduler* scheduler) {
  return posts(*what) || caf::event_based_actor::enqueue(std::move(what), scheduler);
}
#else
void far_actor::enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) {
  if (!posts(*what)) caf::event_based_actor::enqueue(std::move(what), host);
}

far_actor::~far_actor() { hand_over::acquire(hand_over::tag(this)); }

caf::event_based_actor::resume_result far_actor::resume(caf::execution_unit* unit, std::size_t most) {
  const hand_over::inside_caf hidden;
  return caf::event_based_actor::resume(unit, most);
}
#endif

void leave_system() {
#if CAF_MAJOR_VERSION < 1
  caf::logger::set_current_actor_system(nullptr);
#endif
}

} // namespace mailgrad::remote
