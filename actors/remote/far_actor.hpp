#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/address.hpp>

#include <memory>

namespace mailgrad::remote {

class link;

/// Stands in for an actor of another process: who sends it a message sends it to that one, and who watches it
/// learns when the other process is gone.
///
/// It has no work of its own. A message becomes a letter on the thread of its sender, without a turn of this
/// actor, since a thread of the scheduler may be busy with a step of a model for a long time.
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
  bool posts(const caf::mailbox_element& what) const;

  const std::shared_ptr<link> by_; ///< other threads read it
  actor_address stands_for_;
};

/// Makes this thread, which is none of CAF's, forget the system in which it has spawned an actor. Until then,
/// or until the thread ends, CAF 0.17 keeps the system's logger, and the destructor of the system waits for
/// it.
void leave_system();

} // namespace mailgrad::remote
