#pragma once

#include <mailgrad/actors/protocol/wire.hpp>
#include <mailgrad/engine/shard/order_entry.hpp>
#include <mailgrad/optim/identity.hpp>

#include <memory>
#include <vector>

// What the recorder is told, so that a run can be replayed.

namespace mailgrad {

struct recorded_switch; // recording.hpp
struct recording_end;

/// Shard or feeder to recorder, after about a thousand entries, each second and at the end: what it judged or
/// dealt since the last notice. No answer.
struct order_noted {
  shard_index shard; ///< of `turns`
  std::vector<order_entry> turns;
  std::vector<recorded_deal> deals;
};

/// Coordinator to recorder, before the shards are told: a switch begins. No answer.
struct switch_noted {
  std::shared_ptr<const recorded_switch> what;
};

/// The owner of a run to the recorder, when the run has ended. The recorder passes it on to the feeder, which
/// sends the deals that it has not yet told and then returns this message. Nothing follows it.
struct end_recording {
  std::shared_ptr<const recording_end> what;
  caf::actor feeder{}; ///< may have deals to tell; null if no feeder has
};

template <class Inspector>
auto inspect(Inspector& f, recorded_deal& x) {
  return wire::fields(f, x, wire::field("worker", x.worker), wire::field("number", x.number),
                      wire::field("what", x.what));
}
template <class Inspector>
auto inspect(Inspector& f, order_noted& x) {
  return wire::fields(f, x, wire::field("shard", x.shard), wire::field("turns", x.turns),
                      wire::field("deals", x.deals));
}

} // namespace mailgrad
