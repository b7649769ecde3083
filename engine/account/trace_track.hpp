#pragma once

#include <mailgrad/engine/account/time_source.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// What an actor did, or waited for.
enum class trace_kind : std::uint8_t {
  compute,       ///< worker: a gradient
  read,          ///< worker: gets weights into its model
  apply,         ///< shard, or worker in hogwild: an update; of a batch, each gradient has an equal share
  compare,       ///< worker: computes a batch once more, for a sample
  deal,          ///< feeder: makes a batch
  discard,       ///< shard: a gradient, for a reason; a moment
  change_policy, ///< shard: begins the next; a moment
  shard_mailbox, ///< worker: its gradient lies in a shard's mailbox
  shard_at_work, ///< worker: a shard judges and applies its gradient
  own_mailbox,   ///< worker: weights lie in its mailbox
  barrier,       ///< worker: waits for the gradients of others
  bound,         ///< worker: held until slower ones come up
  batch,         ///< worker: waits for the feeder
  policy_switch, ///< worker: waits at the fence
  gradient,      ///< shard: has nothing to do
  rest_of_batch, ///< shard: has part of a batch
  asker,         ///< feeder: nobody wants a batch
  hold,          ///< feeder: deals none until a switch of policy is through
  word_of_first_shard, ///< shard: has a gradient, but not its turn
  compute_part,        ///< piece: a segment of its worker's model, for a micro-batch
  piece_values,        ///< piece: waits for the values of others
  credit,              ///< piece: others have yet to use up its values
  next_step            ///< piece: waits for its worker
};

/// One line of a timeline. Which numbers mean something depends on the kind.
struct trace_event {
  trace_kind what = trace_kind::compute;
  instant begin{0};
  instant end{0};
  std::uint32_t peer =
      0; ///< the shard, in a worker's track; the micro-batch, in a piece's; the worker, in another's
  std::uint64_t step = 0; ///< the worker's own count; the number of a batch
  std::uint64_t version_read = 0;
  std::uint64_t version = 0; ///< that the update made, or that was read; the segment, in a piece's track
  std::string_view word{};   ///< why a gradient was discarded, which policy begins; of static storage
};

/// What one actor did, in the order of time and without overlaps, in memory that is taken beforehand: whoever
/// owns it records into it, and hands it over at the end. When the memory is full, what comes later is
/// counted and left out.
///
/// Threads one caller at a time.
class trace_track {
public:
  /// Room for `capacity` events; the first begins at `start` or later.
  trace_track(std::string name, std::size_t capacity, instant start);

  /// Something done. Its begin moves to where the last event ended, if that is later.
  void work(trace_event e) noexcept;
  /// From where the last event ended until `end`; nothing, if that is not later.
  void wait(trace_kind what, instant end, std::uint32_t peer = 0) noexcept;
  /// Something that takes no time; `begin` is when.
  void moment(const trace_event& e) noexcept;

  const std::string& name() const noexcept { return name_; }
  const std::vector<trace_event>& events() const noexcept { return events_; }
  /// Events that there was no room for.
  std::uint64_t left_out() const noexcept { return left_out_; }

private:
  void keep(const trace_event& e) noexcept;

  std::string name_;
  std::vector<trace_event> events_;
  instant end_; ///< of the last event
  std::uint64_t left_out_ = 0;
};

} // namespace mailgrad
