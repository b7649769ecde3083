#pragma once

#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/files/archive.hpp>

#include <algorithm>
#include <set>

namespace mailgrad {

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

/// The events of one actor, in the order of time and without overlaps; when memory is full, they are counted.
class trace_track {
public:
  /// Room for `capacity` events; the first begins at `start` or later.
  trace_track(std::string name, std::size_t capacity, instant start) : name_(std::move(name)), end_(start) {
    events_.reserve(capacity);
  }
  /// Records work. Its begin moves to the end of the last event if that is later.
  void work(trace_event e) noexcept;
  /// Records a wait from the end of the last event until `end`; nothing if that is not later.
  void wait(trace_kind what, instant end, std::uint32_t peer = 0) noexcept {
    if (end <= end_) return;
    keep({what, end_, end, peer});
    end_ = end;
  }
  void moment(const trace_event& e) noexcept { keep(e); } ///< records an event without duration, at `begin`
  /// A word of another process, for its events. It lives as long as the track.
  std::string_view own(std::string word) { return *words_.insert(std::move(word)).first; }

  const std::string& name() const noexcept { return name_; }
  const std::vector<trace_event>& events() const noexcept { return events_; }
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

/// An event of a timeline as another process is told it: in spans, since that process has another clock.
struct reported_event {
  trace_kind what = trace_kind::compute;
  std::int64_t ago = 0;  ///< ns from its begin until the piece was sent
  std::int64_t span = 0; ///< ns
  std::uint32_t peer = 0;
  std::uint64_t step = 0;
  std::uint64_t version_read = 0;
  std::uint64_t version = 0;
  std::uint32_t word = 0; ///< which of the words of the piece, from 1; 0: none

  void keep(archive& a) {
    a.choice("what", what, trace_kind::checkpoint);
    a.fields({"ago", "span", "peer", "step"}, ago, span, peer, step);
    a.fields({"version_read", "version", "word"}, version_read, version, word);
  }
};

/// What a worker or a shard of another process has recorded since the piece before.
struct trace_piece {
  static constexpr std::size_t most_events = 256; ///< with so many a piece has less than 16 KiB
  static constexpr std::size_t most_words = 8;
  static constexpr std::size_t longest_word = 64;

  std::string device;                     ///< of the worker; empty: of a shard
  std::int64_t sent = 0;                  ///< a moment of its clock, in ns
  std::optional<std::int64_t> answered{}; ///< when it had the answer to the piece before, by its clock
  std::uint64_t left_out = 0;             ///< so far, events for which it had no room
  std::vector<reported_event> events{};
  std::vector<std::string> words{}; ///< why gradients were discarded, and policies that began
  bool makes_sense() const; ///< whether its numbers can be those of a clock and of events that have ended
};

/// Puts the events of a track from `first` on into a piece, as many as fit. A word without room is left out.
/// Units   `sent` of the piece is a moment of the clock of the track.
void tell_from(const trace_track& track, std::size_t first, trace_piece& into);

/// What is added to a moment of another process's clock to make it one of this process's.
struct clock_offset {
  instant value{0};
  std::optional<instant> uncertainty{}; ///< how far it may be wrong; none: nothing came back to that process
};

/// Two clocks drift apart by one part in so many at most: 100 us a second.
inline constexpr std::int64_t drifts_one_in = 10'000;

/// How far two clocks are apart, by the messages that went between their processes.
///
///     sent, by the other clock -----------> came, by this clock
///     answered, by the other clock <------- at once
///
/// A message comes after it was sent, and its answer likewise, so the offset is at least `came - answered`
/// and at most `came - sent`. The bounds of messages before and after count as well, each made wider by what
/// the clocks may have drifted apart since.
/// Units   of both clocks nanoseconds.
class clock_bounds {
public:
  void add(instant sent, instant came) { messages_.push_back({sent, came, {}, came - sent}); }
  /// The other process had the answer to the last message at this moment. One before it was sent is ignored.
  void answer(instant answered) {
    if (messages_.empty() || answered < messages_.back().sent) return;
    const instant least = messages_.back().came - answered;
    messages_.back().least = std::max(least, messages_.back().least.value_or(least));
  }
  /// For each message, in their order. An offset that may be 0 is 0, as of one machine.
  std::vector<clock_offset> offsets() const;

private:
  struct bounds {
    instant sent;
    instant came;
    std::optional<instant> least;
    instant most;
  };

  static void narrow(bounds& by, const bounds& other) {
    const instant drift = std::chrono::abs(by.came - other.came) / drifts_one_in;
    by.most = std::min(by.most, other.most + drift);
    if (other.least) by.least = std::max(by.least.value_or(instant::min()), *other.least - drift);
  }
  static clock_offset offset_in(const bounds& b);

  std::vector<bounds> messages_;
};

/// Places the moments of a device's clock in the time of this process.
///
/// What a device tells is seen here after it was, so the quickest news bounds how far the clocks are apart.
/// Units   of both clocks nanoseconds.
class device_clock {
public:
  /// What ended by the device's clock `there` was seen here at `seen`. The calls come in the order of time.
  void see(instant there, instant seen) noexcept {
    const instant apart = seen - there;
    offset_ = offset_ ? std::min(apart, *offset_ + (seen - last_seen_) / drifts_one_in) : apart;
    last_seen_ = seen;
  }
  /// When that was by the clock of this process; after the first see().
  instant here(instant there) const noexcept { return there + offset_.value_or(instant{0}); }

private:
  std::optional<instant> offset_;
  instant last_seen_{0};
};

} // namespace mailgrad
