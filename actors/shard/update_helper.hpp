#pragma once

#include <mailgrad/actors/protocol/messages.hpp>

namespace mailgrad {

/// Computes parts of an update for a shard that asks for help. A run has one for each of its threads but the
/// first, for all shards.
///
/// Guarantees  the helper that computes the last part tells the shard. A helper that comes late finds no part
///             left, and one that dies between two parts leaves none unfinished.
/// Never       waits; begins a part of an update that has ended.
class update_helper {
public:
  static constexpr const char* name = "mailgrad.update-helper";

  explicit update_helper(caf::event_based_actor* self) : self_(self) {}
  caf::behavior make_behavior();

private:
  void help(const help_update& x);

  caf::event_based_actor* self_;
};

} // namespace mailgrad
