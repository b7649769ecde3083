#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/address.hpp>

#include <cstdint>
#include <memory>

namespace mailgrad::remote {

class link;

/// Stands in for an actor of another process: who sends it a message sends it to that one, and who watches it
/// learns when the other process is gone.
///
/// It has no work of its own. A message becomes a letter on the thread of its sender, without a turn of this
/// actor, since a thread of the scheduler may be busy with a step of a model for a long time. A letter that
/// it takes for a third process counts as read when that process has given credit for it.
class far_actor final : public caf::event_based_actor {
public:
  far_actor(caf::actor_config& config, std::shared_ptr<link> by, actor_address stands_for);

  const char* name() const override { return "mailgrad.far-actor"; }
  caf::behavior make_behavior() override;

#if CAF_MAJOR_VERSION >= 1
  bool enqueue(caf::mailbox_element_ptr what, caf::scheduler* scheduler) override;
#else
  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit* host) override;
  ~far_actor() override;
  resume_result resume(caf::execution_unit* unit, std::size_t most) override;
#endif

private:
  bool takes(const caf::mailbox_element& what) const;

  const std::shared_ptr<link> by_; ///< other threads read it
  actor_address stands_for_;
};

/// Whether the connection by which a letter came may bring another one when the receiver has read it.
enum class receipt : std::uint8_t { none, of_message, of_body };

/// Hands a letter to an actor of this process as if `from` had sent it, which stands in for its sender. It
/// hears, as asked, when the receiver has read it or is no more.
void hand_letter(const caf::actor& from, const caf::actor& to, caf::message m, receipt asked);

} // namespace mailgrad::remote
