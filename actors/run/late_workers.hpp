#pragma once

#include <mailgrad/actors/protocol/messages.hpp>

#include <functional>
#include <vector>

namespace mailgrad {

/// Brings the workers of a replay that came later in the recorded run, when the coordinator asks for them.
///
/// Guarantees  who was brought is told to give up when this actor is. A worker belongs to the coordinator
///             that asked for it, which may do so before its spawner knows the coordinator's own handle.
/// Never       calls the spawner before it is told to go on.
///
///     held --go_on--> bringing --bring_worker--> the worker's actors are spawned
///       \--give_up--> ended, whoever was asked for
class late_workers {
public:
  static constexpr const char* name = "mailgrad.late-workers";

  /// Spawns the actors of a worker that joins late under this coordinator; may throw.
  using spawner =
      std::function<std::vector<caf::actor>(rank worker, incarnation life, const caf::actor& coordinator)>;

  late_workers(caf::event_based_actor* self, spawner spawn) : self_(self), spawn_(std::move(spawn)) {}
  caf::behavior make_behavior();

private:
  caf::behavior held();
  caf::behavior bringing();
  void bring(const bring_worker& x);

  caf::event_based_actor* self_;
  spawner spawn_;
  std::vector<caf::actor> brought_;
};

} // namespace mailgrad
