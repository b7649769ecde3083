#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace mailgrad::remote {

/// What an actor is to the run. The numbers stand on the wire.
enum class duty : std::uint8_t {
  nobody = 0, ///< the sender of a message that has none
  host = 1,   ///< of each process: begins and ends what it has of the run
  coordinator = 2,
  feeder = 3,
  tracker = 4,
  shard = 5,
  worker = 6,
  recorder = 7,
  evaluator = 8,
};
inline constexpr duty last_duty = duty::evaluator;

/// An actor as both processes of a link name it. There is one coordinator, but several shards.
struct actor_address {
  duty what = duty::nobody;
  std::uint32_t number = 0; ///< of a shard; of a worker its rank

  friend auto operator<=>(const actor_address&, const actor_address&) = default;
};

/// "shard 2", "the feeder"
std::string to_string(const actor_address& a);

/// The handles behind the addresses of a link: actors of this process, and those that stand in for actors of
/// the other one.
///
/// Threads one caller at a time.
class address_book {
public:
  void add(actor_address a, caf::actor handle) { handles_[a] = std::move(handle); }
  /// Null if there is none.
  caf::actor at(actor_address a) const;
  /// nobody for an actor that has no address here.
  actor_address of(const caf::actor& handle) const;

  void clear() { handles_.clear(); }

private:
  std::map<actor_address, caf::actor> handles_;
};

} // namespace mailgrad::remote
