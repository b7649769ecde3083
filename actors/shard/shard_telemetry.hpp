#pragma once

#include <mailgrad/actors/protocol/gap_notices.hpp>
#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/trace_teller.hpp>
#include <mailgrad/engine/account/trace_track.hpp>

#include <functional>
#include <memory>
#include <string_view>
#include <utility>

namespace mailgrad {

/// What a shard tells during a run: gaps to the tracker, many in one message, and moments, waits and work to
/// its timeline, if there is one, which goes to a coordinator of another process in pieces.
///
/// Threads one caller at a time.
class shard_telemetry {
public:
  shard_telemetry(caf::event_based_actor* self, caf::actor tracker, std::shared_ptr<const time_source> time,
                  std::shared_ptr<trace_track> trace, notice_pace pace = {},
                  std::function<void(trace_piece)> tell = nullptr);

  /// The tracker is told `counts` of the shard with the gaps.
  void add_counts(std::function<shard_counts()> counts) { gaps_.add_counts(std::move(counts)); }

  /// Counts the gap of a gradient. `arrived` decides only when the tracker is told.
  void gap(std::uint64_t versions, instant arrived) { gaps_.count(versions, arrived); }
  /// Sends the gaps counted so far, because those that follow belong to another policy.
  void flush_gaps() { gaps_.flush(); }

  /// Gradient `x` was applied and made `version`.
  void applied(const gradient_header& x, version_number version, instant begun, instant span);
  /// The shard was idle until it took a gradient that `arrived`. `batch_begun`: it waited for the rest of a
  /// batch. `follows`: it may also have waited for the first shard's verdict.
  void idle(bool batch_begun, instant arrived, bool follows);
  void moment(trace_kind what, const gradient_header& x, std::string_view word);

  /// A worker is there, so the coordinator is as well.
  void begin_telling();
  void tell_if_due() { teller_.tell_if_due(time_->now()); }
  void on_taken(const trace_taken& x) { teller_.on_taken(x); }
  /// Calls `then` when all is told, which may be at once.
  void end_telling(std::function<void()> then) { teller_.end(std::move(then)); }
  bool is_ending() const { return teller_.is_ending(); }
  instant told_at() const { return teller_.told_at(); }

  /// Gives the timeline away, at the end. Null if it was told.
  std::shared_ptr<trace_track> take_trace() { return std::move(trace_); }

private:
  std::shared_ptr<const time_source> time_;
  std::shared_ptr<trace_track> trace_;
  gap_notices gaps_;
  trace_teller teller_;
  bool told_ = false; ///< it has begun
};

} // namespace mailgrad
