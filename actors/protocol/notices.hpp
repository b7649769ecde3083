#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>

#include <bit>

namespace mailgrad {

/// Collects what an actor must tell the recorder. It sends many entries at a time, because a message for each
/// update would cost more than the update. It also sends each second, so that little is missing from the
/// recording of a killed run with slow steps.
class order_log : messaging::actor_part {
public:
  order_log(caf::event_based_actor* self, caf::actor recorder, shard_index shard = {})
      : actor_part(self), recorder_(std::move(recorder)) {
    notes_.shard = shard;
  }

  /// Does nothing in a run without a recorder.
  void note(const order_entry& entry) {
    add(notes_.entries, entry);
    flush_each_second(instant{entry.arrived});
  }
  void note(const recorded_deal& deal, instant now) {
    add(notes_.deals, deal);
    flush_each_second(now);
  }
  /// Sends the entries noted so far.
  void flush() {
    if (notes_.entries.empty() && notes_.deals.empty()) return;
    order_noted told{notes_.shard, {}, {}};
    told.entries.swap(notes_.entries);
    told.deals.swap(notes_.deals);
    send(recorder_, std::move(told));
  }
  /// Sends them, and says that they lie before this checkpoint.
  void mark(std::uint64_t checkpoint, shard_index by) {
    if (!recorder_) return;
    flush();
    send(recorder_, recording_marked{checkpoint, by});
  }

private:
  static constexpr std::size_t entries_per_message = 1024;

  template <class Entry>
  void add(std::vector<Entry>& to, const Entry& e) {
    if (!recorder_) return;
    to.push_back(e);
    if (to.size() >= entries_per_message) flush();
  }

  /// The first entry of a run is sent at once, since nothing was sent before it.
  void flush_each_second(instant now) {
    if (now - told_at_ < std::chrono::seconds{1}) return;
    told_at_ = now;
    flush();
  }

  caf::actor recorder_;
  order_noted notes_;
  instant told_at_{0};
};

/// Tells the tracker how stale gradients were: one message for many gradients.
class gap_notices : messaging::actor_part {
public:
  /// A message is sent after this many gradients at the latest.
  static constexpr std::uint64_t per_notice = 256;

  /// The steps of `pace` are gradients here.
  gap_notices(caf::event_based_actor* self, caf::actor tracker, const time_source& time,
              notice_pace pace = {})
      : actor_part(self), tracker_(std::move(tracker)), time_(time), pace_(pace), sent_(time.now()) {}

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
  caf::actor tracker_;
  const time_source& time_;
  notice_pace pace_;
  staleness_histogram gaps_; ///< not yet sent
  std::function<shard_counts()> counts_;
  instant sent_; ///< when the last message was sent
};

/// Tells the tracker now and then what a worker has done, and the coordinator as well, which has nothing else
/// of a worker that is lost. The first step whose loss is known is told at once, as the loss to measure
/// others by.
class progress_notices : messaging::actor_part {
public:
  progress_notices(caf::event_based_actor* self, caf::actor tracker, caf::actor coordinator, rank worker,
                   notice_pace pace = {})
      : actor_part(self), tracker_(std::move(tracker)), coordinator_(std::move(coordinator)), pace_(pace) {
    unreported_.worker = worker;
  }

  /// The worker starts `now`. In a run that is resumed it has these sums from before.
  void begin(instant now, const worker_sums& before = {}) {
    last_ = now;
    told_ = before;
  }
  /// Counts one step of the worker, and its samples if their loss is known.
  void count(std::size_t samples, std::optional<float> loss) {
    ++unreported_.steps;
    if (!loss) return;
    unreported_.samples += samples;
    loss_sum_ += static_cast<double>(*loss) * static_cast<double>(samples);
  }
  /// A step ended at `now`, with these sums over the whole life of the worker.
  void notify_if_due(instant now, const worker_sums& so_far) {
    const bool is_first = !has_told_ && unreported_.samples > 0;
    if (!is_first && !pace_.due(now - last_, unreported_.steps)) return;
    const auto news = take(now, so_far);
    if (!news) return;
    send(tracker_, *news);
    send(coordinator_, *news);
  }
  /// The worker ends: tells the tracker what is new. The coordinator gets the whole report.
  void notify(instant now, const worker_sums& so_far) {
    if (const auto news = take(now, so_far)) send(tracker_, *news);
  }

private:
  std::optional<worker_progress> take(instant now, const worker_sums& so_far) {
    if (unreported_.steps == 0) return std::nullopt;
    unreported_.span = (now - last_).count();
    unreported_.sums = so_far.since(told_);
    if (unreported_.samples > 0) has_told_ = true;
    last_ = now;
    told_ = so_far;
    unreported_.loss_sum_bits = std::bit_cast<std::uint64_t>(std::exchange(loss_sum_, 0.0));
    worker_progress next;
    next.worker = unreported_.worker;
    return std::exchange(unreported_, next);
  }

  caf::actor tracker_;
  caf::actor coordinator_;
  notice_pace pace_;
  worker_progress unreported_;
  double loss_sum_ = 0; ///< over the unreported samples
  bool has_told_ = false;
  instant last_{0};
  worker_sums told_; ///< in all notices so far
};

/// Tells the timeline of a worker or a shard to a coordinator in another process, in pieces, since the
/// coordinator must have what happened before the actor is lost.
///
/// Guarantees  a piece is under way only when the coordinator has answered the one before, so at most one
///             lies in front of a gradient, also on a slow network. What has not been told stays in the
///             track, which has its own bound.
class trace_teller {
public:
  struct options {
    std::string device; ///< of a worker
    std::shared_ptr<const time_source> time;
    std::shared_ptr<const trace_track> track; ///< null: nothing is told
    std::function<void(trace_piece)> tell;    ///< sends a piece to the coordinator
  };

  explicit trace_teller(options o) : options_(std::move(o)) {}

  /// The actor takes part. A first piece, which has no events, shows how far the clocks are apart.
  void begin() {
    if (options_.track) tell();
  }
  /// A step has been computed and pushed, or a gradient judged. Tells of it if there is a whole piece, or
  /// enough time has passed.
  void tell_if_due(instant now) {
    if (!options_.track || under_way_ || unreported() == 0) return;
    if (unreported() >= trace_piece::most_events || now - told_at_ >= pieces_apart) tell();
  }
  /// The coordinator has the last piece.
  void on_taken(const trace_taken&) {
    under_way_ = false;
    answered_ = options_.time->now().count();
    if (then_) tell_rest();
  }
  /// The actor ends. `then` is called when the last of what is left is under way, which may be at once.
  void end(std::function<void()> then) {
    then_ = std::move(then);
    if (!options_.track) return close();
    if (!under_way_) tell_rest();
  }
  /// Nobody answers any more, so an end waits for no answer.
  void give_up() {
    if (then_) close();
  }
  instant told_at() const { return told_at_; }
  bool is_ending() const { return then_ != nullptr; }
  bool tells() const { return options_.track != nullptr; }

private:
  static constexpr instant pieces_apart = std::chrono::seconds{1};

  std::size_t unreported() const { return options_.track->events().size() - told_; }
  void tell() {
    told_at_ = options_.time->now();
    under_way_ = true;
    trace_piece piece{options_.device, told_at_.count(), std::exchange(answered_, std::nullopt),
                      options_.track->left_out()};
    tell_from(*options_.track, told_, piece);
    told_ += piece.events.size();
    options_.tell(std::move(piece));
  }
  /// The last piece also counts what had no room, so it comes even without events.
  void tell_rest() {
    tell();
    if (unreported() == 0) close();
  }
  void close() {
    options_.track.reset();
    std::exchange(then_, nullptr)();
  }

  options options_;
  std::size_t told_ = 0; ///< events
  bool under_way_ = false;
  instant told_at_{0};
  std::optional<std::int64_t> answered_; ///< of the last piece, until it is told
  std::function<void()> then_;           ///< set while the actor ends
};

} // namespace mailgrad
