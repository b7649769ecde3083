#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>

namespace mailgrad {

/// Computes parts of an update for a shard that asks for help. A run has one for each of its threads but the
/// first, for all shards.
///
/// Guarantees  the helper that computes the last part tells the shard. A helper that comes late finds no part
///             left, and one that dies between two parts leaves none unfinished.
/// Never       waits; begins a part of an update that has ended.
class update_helper : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.update-helper";

  explicit update_helper(caf::event_based_actor* self) : actor_part(self) {}
  caf::behavior make_behavior();

private:
  void help(const help_update& x);
};

} // namespace mailgrad
