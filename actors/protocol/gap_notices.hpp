#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/engine/account/training_progress.hpp>

#include <functional>
#include <optional>
#include <utility>

namespace mailgrad {

/// Tells the tracker how stale gradients were: one message for many gradients.
///
/// Threads  those of the actor that owns it.
class gap_notices {
public:
  /// A message is sent after this many gradients at the latest.
  static constexpr std::uint64_t per_notice = 256;

  /// The steps of `pace` are gradients here.
  gap_notices(caf::event_based_actor* self, caf::actor tracker, const time_source& time,
              notice_pace pace = {})
      : self_(self), tracker_(std::move(tracker)), time_(time), pace_(pace), sent_(time.now()) {}

  /// Each message has also what `counts` gives then.
  void add_counts(std::function<shard_counts()> counts) { counts_ = std::move(counts); }

  /// Counts a gradient that was `gap` versions late at the time `now`.
  void count(std::uint64_t gap, instant now) {
    gaps_.count(gap);
    if (gaps_.total() >= per_notice || pace_.due(now - sent_, gaps_.total())) flush();
  }

  void flush() {
    if (gaps_.empty()) return;
    messaging::send(self_, tracker_,
                    staleness_observed{gaps_, counts_ ? std::optional(counts_()) : std::nullopt});
    gaps_.clear();
    sent_ = time_.now();
  }

private:
  caf::event_based_actor* self_;
  caf::actor tracker_;
  const time_source& time_;
  notice_pace pace_;
  staleness_histogram gaps_; ///< not yet sent
  std::function<shard_counts()> counts_;
  instant sent_; ///< when the last message was sent
};

} // namespace mailgrad
