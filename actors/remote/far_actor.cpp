#include <mailgrad/actors/remote/far_actor.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/remote/link.hpp>

#include <utility>

namespace mailgrad::remote {

namespace {

/// CAF answers a request when its handler has returned, and also if its receiver has ended. All requests to
/// actors of this process may have the same number, since nobody looks for the answer by it.
caf::message_id id_of(receipt asked) {
  return asked == receipt::none
             ? caf::make_message_id()
             : caf::message_id{caf::message_id::default_async_value | static_cast<std::uint64_t>(asked)};
}
receipt asked_by(caf::message_id id) { return static_cast<receipt>(id.integer_value() & 3U); }

void enqueue(caf::strong_actor_ptr from, const caf::actor& to, caf::message_id id, caf::message m) {
  hand_over::release(hand_over::tag(to));
  const hand_over::inside_caf hidden;
  auto* receiver = caf::actor_cast<caf::abstract_actor*>(to);
#if CAF_MAJOR_VERSION >= 1
  receiver->enqueue(caf::make_mailbox_element(std::move(from), id, std::move(m)), nullptr);
#else
  receiver->enqueue(std::move(from), id, std::move(m), nullptr);
#endif
}

/// Goes when a letter from a third process has left this one, and tells the stand-in for its sender.
std::shared_ptr<const void> receipt_for(const caf::mailbox_element& letter) {
  if (!letter.mid.is_request() || !letter.sender) return nullptr;
  return {nullptr, [to = caf::actor_cast<caf::actor>(letter.sender),
                    id = letter.mid.response_id()](const void*) { enqueue(nullptr, to, id, {}); }};
}

} // namespace

void hand_letter(const caf::actor& from, const caf::actor& to, caf::message m, receipt asked) {
  enqueue(caf::actor_cast<caf::strong_actor_ptr>(from), to, id_of(asked), std::move(m));
}

far_actor::far_actor(caf::actor_config& config, std::shared_ptr<link> by, actor_address stands_for)
    : caf::event_based_actor(config), by_(std::move(by)), stands_for_(stands_for) {
  hand_over::release(hand_over::tag(this));
}

/// It hears the order to end, and nothing else.
caf::behavior far_actor::make_behavior() {
  return {[](const step_ended&) {}};
}

/// What a handler returns for a letter comes with the receipt.
bool far_actor::takes(const caf::mailbox_element& what) const {
  caf::message m = messaging::content_of(what);
  const auto kind = m.empty() ? std::nullopt : kind_of(m);
  if (kind) by_->post(stands_for_, caf::actor_cast<caf::actor>(what.sender), *kind, m, receipt_for(what));
  if (what.mid.is_response()) by_->was_read(asked_by(what.mid) == receipt::of_body);
  return kind || what.mid.is_response();
}

#if CAF_MAJOR_VERSION >= 1
bool far_actor::enqueue(caf::mailbox_element_ptr what, caf::scheduler* scheduler) {
  return takes(*what) || caf::event_based_actor::enqueue(std::move(what), scheduler);
}
#else
void far_actor::enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) {
  if (!takes(*what)) caf::event_based_actor::enqueue(std::move(what), host);
}

far_actor::~far_actor() { hand_over::acquire(hand_over::tag(this)); }

caf::event_based_actor::resume_result far_actor::resume(caf::execution_unit* unit, std::size_t most) {
  const hand_over::inside_caf hidden;
  return caf::event_based_actor::resume(unit, most);
}
#endif

} // namespace mailgrad::remote
