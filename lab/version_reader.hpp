#pragma once

#include <mailgrad/actors/protocol/messages.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace mailgrad::lab {

/// Reads how many updates the one shard of a run has made, between two events.
///
///     idle --read_shard--> asking --shard_read--> idle
/// Guarantees  `to` has the version when no message is under way any more, if the shard lives.
class version_reader {
public:
  static constexpr const char* name = "mailgrad.version-reader";

  version_reader(caf::event_based_actor* self, caf::actor shard, std::shared_ptr<std::uint64_t> to)
      : self_(self), shard_(std::move(shard)), to_(std::move(to)) {}
  caf::behavior make_behavior();

private:
  caf::event_based_actor* self_;
  caf::actor shard_;
  std::shared_ptr<std::uint64_t> to_;
};

} // namespace mailgrad::lab
