#pragma once

#include <mailgrad/engine/account/time_source.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad {

/// An activity or a wait of an actor.
enum class trace_kind : std::uint8_t {
  compute,       ///< worker: a gradient
  read,          ///< worker: gets weights into its model
  apply,         ///< shard, or worker in hogwild: an update; each gradient of a batch gets an equal share
  compare,       ///< worker: computes a batch once more, for a sample
  deal,          ///< feeder: makes a batch
  discard,       ///< shard: a gradient, for a reason; a moment
  change_policy, ///< shard: begins the next policy; a moment
  shard_mailbox, ///< worker: its gradient lies in a shard's mailbox
  shard_at_work, ///< worker: a shard judges and applies its gradient
  own_mailbox,   ///< worker: weights lie in its mailbox
  barrier,       ///< worker: waits for the gradients of others
  bound,         ///< worker: held by the staleness bound until slower workers catch up
  batch,         ///< worker: waits for the feeder
  policy_switch, ///< worker: waits at the fence
  gradient,      ///< shard: waits for a gradient
  rest_of_batch, ///< shard: has a part of a batch and waits for the rest
  asker,         ///< feeder: waits for a worker that asks for a batch
  hold,          ///< feeder: deals no batch until a switch of policy is complete
  word_of_first_shard, ///< shard: has a gradient, and waits for shard 0 to name the next one
  compute_part,        ///< stage: a segment of its worker's model, for a micro-batch
  stage_values,        ///< stage: waits for the values of other stages
  credit,              ///< stage: waits until other stages have used its values
  next_step,           ///< stage: waits for its worker
  wire,                ///< worker: its gradient and the weights are between two processes
  copy,                ///< worker's copies: a batch is copied to the device before its step begins
  checkpoint           ///< worker in hogwild: stands still until the block is copied
};

/// Whether such an event has no duration.
constexpr bool is_moment(trace_kind what) {
  return what == trace_kind::discard || what == trace_kind::change_policy;
}

/// One event of a timeline. Its kind decides which numbers have a meaning.
struct trace_event {
  trace_kind what = trace_kind::compute;
  instant begin{0};
  instant end{0};
  std::uint32_t peer = 0; ///< a worker's track: the shard; a stage's: the micro-batch; any other: the worker
  std::uint64_t step = 0; ///< the worker's own count; the number of a batch
  std::uint64_t version_read = 0;
  std::uint64_t version = 0; ///< the version made or read; the segment in a stage's track
  /// The reason of a discard, or the policy that begins: of static storage, or of the track itself.
  std::string_view word{};
};

/// The events of one actor, in the order of time and without overlaps. The actor that owns the track records
/// into it, and sends it with its report. The memory is allocated beforehand; when it is full, later events
/// are only counted.
///
/// Threads one caller at a time.
class trace_track {
public:
  /// Room for `capacity` events; the first begins at `start` or later.
  trace_track(std::string name, std::size_t capacity, instant start);

  /// Records work. Its begin moves to the end of the last event if that is later.
  void work(trace_event e) noexcept;
  /// Records a wait from the end of the last event until `end`; nothing if that is not later.
  void wait(trace_kind what, instant end, std::uint32_t peer = 0) noexcept;
  /// Records an event without duration, at `begin`.
  void moment(const trace_event& e) noexcept;

  /// A word of another process, for its events. It lives as long as the track.
  std::string_view own(std::string word) { return *words_.insert(std::move(word)).first; }

  const std::string& name() const noexcept { return name_; }
  const std::vector<trace_event>& events() const noexcept { return events_; }
  /// So many events are missing at the end.
  void leave_out(std::uint64_t events) noexcept { left_out_ += events; }
  /// The number of events for which there was no room.
  std::uint64_t left_out() const noexcept { return left_out_; }

private:
  void keep(const trace_event& e) noexcept;

  std::string name_;
  std::vector<trace_event> events_;
  instant end_; ///< of the last event
  std::uint64_t left_out_ = 0;
  std::set<std::string> words_;
};

} // namespace mailgrad
