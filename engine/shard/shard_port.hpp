#pragma once

#include <mailgrad/engine/shard/order_entry.hpp>
#include <mailgrad/engine/shard/shard_weights.hpp>

namespace mailgrad {

/// What the core of a shard tells others in the middle of an event, since it must leave at that moment. Its
/// owner sends each at once, and asks the core for all other work when the event is over.
/// Threads  the one that has called the core.
class shard_port {
public:
  virtual ~shard_port() = default;
  /// The worker may go on with these weights.
  virtual void answer(rank worker, shard_weights weights) = 0;
  /// A recording has no entry for this gradient, so the shard never takes it.
  virtual void refuse(rank worker, step_number step) = 0;
  virtual void note(const order_entry& entry) = 0; ///< this entry is taken now: the recorder notes it
  /// The same for a checkpoint: what was noted so far lies before it.
  virtual void note_kept(std::uint64_t checkpoint) = 0;
  /// The shards that follow this one take the entry next. They work on it while this one does.
  virtual void tell_followers(const order_entry& entry) = 0;
  /// A gradient of this gap, which `arrived` then, is part of the next update.
  virtual void count_gap(std::uint64_t versions, instant arrived) = 0;
  virtual void end_gaps() = 0; ///< the gaps that follow belong to another policy
};

} // namespace mailgrad
