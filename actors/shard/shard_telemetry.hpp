#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/account/trace_track.hpp>

#include <memory>
#include <string_view>

namespace mailgrad {

/// What a shard tells of its work while it works: gaps to the tracker, a batch of them at a time, and
/// moments, waits and work to its timeline, if there is one.
///
/// Threads one caller at a time.
class shard_telemetry {
public:
  shard_telemetry(caf::event_based_actor* self, caf::actor tracker, std::shared_ptr<const time_source> time,
                  std::shared_ptr<trace_track> trace);

  /// Of a gradient that has `arrived`, or whose worker has, since: it says only when the tracker is told.
  void gap(std::uint64_t versions, instant arrived);
  /// Before what comes next is of another kind.
  void flush_gaps();

  /// `x` was applied, which made `version`.
  void applied(const push_gradient& x, std::uint64_t version, instant begun, instant span);
  /// Why the shard was idle until it took up a gradient that `arrived`: it had others of the batch, or none;
  /// and whether it had to hear first what the first shard judged.
  void idle(bool batch_begun, instant arrived, bool follows);
  void moment(trace_kind what, const push_gradient& x, std::string_view word);

  /// The timeline, at the end.
  std::shared_ptr<trace_track> take_trace() { return std::move(trace_); }

private:
  caf::event_based_actor* self_;
  caf::actor tracker_;
  std::shared_ptr<const time_source> time_;
  std::shared_ptr<trace_track> trace_;
  staleness_histogram gaps_; ///< not yet sent
  instant sent_;             ///< the last time that some were
};

} // namespace mailgrad
