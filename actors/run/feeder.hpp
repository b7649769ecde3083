#pragma once

#include <mailgrad/actors/protocol/notices.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/record/recorded_incarnations.hpp>

namespace mailgrad {

/// A field of the feeder's part in a checkpoint, by rank: the samples that the worker had trained at its last
/// marker. Who dies behind it has trained more, which belongs to no part.
inline constexpr const char* samples_at_markers = "samples at marks";

/// The feeder's book of what it dealt to whom. Two things are read from it: the feeder's part in a
/// checkpoint, and what must be dealt again because its worker is lost or has left.
///
/// A worker asks one batch ahead, so some of those that it was dealt before its marker in a checkpoint were
/// not trained. These, and all that it was dealt after its marker, are to be dealt again when the run is
/// resumed. What a lost worker had not trained is dealt again while the run goes on, and no checkpoint is
/// whole before it is known how much that is.
class feeder_cut {
public:
  struct options {
    std::uint32_t workers = 1; ///< with which the run begins
    std::uint32_t slots = 1;   ///< with those that may join later
    std::size_t under_way = 2; ///< the most batches that a worker has not trained, or whose step no shard has
    std::vector<std::uint64_t> trained{}; ///< of the workers that go on from a checkpoint; empty: it begins
  };
  explicit feeder_cut(options o);

  /// What the feeder knows of the incarnation that asks for a batch.
  enum class asker : std::uint8_t {
    known,
    newcomer, ///< it asks for the first time, and an earlier one has left, or the slot was empty
    lost,     ///< the run goes on without it
    stranger, ///< it has left, a later one has come, or there is no such rank
  };
  asker hear(rank worker, incarnation_number incarnation);

  /// `own`: the worker has the samples itself, and got their numbers alone.
  void deal(rank worker, std::uint64_t number, bool own);
  void mark(const worker_marked& x);
  /// The coordinator wants a part although no worker is left.
  void begin(std::uint64_t number, const caf::actor& collector) {
    if (number <= last_) return; // finished before
    number_ = number;
    collector_ = collector;
  }
  /// No marker of this worker will come. False: of this incarnation none would have come.
  bool leave(rank worker, incarnation_number incarnation);
  /// No marker of this worker will come, and nobody knows yet which of its batches are trained. Returns false
  /// where leave() does.
  bool lose(rank worker, incarnation_number incarnation) {
    if (!leave(worker, incarnation)) return false;
    workers_[worker.value].lost = true;
    lost_.push_back({worker, incarnation, std::exchange(workers_[worker.value].now, {})});
    return true;
  }
  /// What became of the batches of this incarnation, if it is lost; of another one it knows nothing. Asked
  /// for before untrained().
  share_ended account_of(const deal_again& x) const;
  /// Returns the batches that this incarnation was dealt and has not trained. Returned once.
  std::vector<std::uint64_t> untrained(const deal_again& x);
  /// Whether it is not known yet what some lost worker had trained.
  bool has_lost_shares() const noexcept { return !lost_.empty(); }
  /// The part, when no marker is missing. Returned once.
  std::optional<checkpoint_part> finished(const dealer& of, std::uint64_t switches);
  const caf::actor& collector() const noexcept { return collector_; }

private:
  /// What one incarnation was dealt.
  struct share {
    std::uint64_t dealt = 0;           ///< since it joined or was resumed
    bool own = false;                  ///< it cuts its batches from samples of its own
    std::vector<std::uint64_t> last{}; ///< numbers of the batches dealt last, at most `under_way`
  };
  struct of_worker {
    incarnation_number incarnation{};
    share now{};
    std::uint64_t before = 0;          ///< trained before this incarnation joined
    std::optional<std::uint64_t> mark; ///< trained at the marker by all its incarnations, if that has come
    std::uint64_t samples = 0;         ///< in these
    std::vector<std::uint64_t> again{};
    bool gone = false; ///< or nobody has come to the slot yet
    bool lost = false; ///< it is gone, and did not say so
    bool empty = false;
  };
  struct lost_share {
    rank worker;
    incarnation_number incarnation;
    share what;
  };

  /// What an earlier incarnation was dealt, it has trained, or it was taken back.
  static void begin_incarnation(of_worker& w, incarnation_number incarnation) {
    w.before += w.now.dealt;
    w.now = {};
    w.incarnation = incarnation;
    w.gone = w.lost = w.empty = false;
  }
  /// How many of the batches dealt last are not among the first `trained`.
  static std::ptrdiff_t untrained_of(const share& s, std::uint64_t trained) {
    return static_cast<std::ptrdiff_t>(
        std::min<std::uint64_t>(s.dealt - std::min(s.dealt, trained), s.last.size()));
  }
  std::vector<lost_share>::const_iterator find_lost(rank worker, incarnation_number incarnation) const;
  std::vector<std::uint64_t> take_untrained(of_worker& w, share& of, std::uint64_t trained);

  std::size_t under_way_;
  std::vector<of_worker> workers_; ///< by rank
  std::vector<lost_share> lost_;
  std::uint64_t number_ = 0; ///< of the checkpoint under way; 0: none is
  std::uint64_t last_ = 0;   ///< that was finished
  caf::actor collector_;
};

struct feeder_options {
  std::shared_ptr<const dataset> samples;
  dealer_options deal;
  std::size_t nonzeros = 0;            ///< for which a batch of a sparse set has room
  std::deque<std::uint64_t> hold_at{}; ///< ascending numbers of batches after which it holds until told
  caf::actor recorder{};               ///< gets each deal; null in a run that is not recorded
  std::shared_ptr<const recording> replayed{}; ///< the run to repeat, with its deals and holds
  std::shared_ptr<const time_source> time{};   ///< of the timeline and the recording, if either is made
  std::shared_ptr<trace_track> trace{};        ///< the timeline; the feeder owns it while it lives
  std::optional<feeder_position> resumed{};    ///< of a checkpoint, to go on from
  std::size_t under_way =
      2; ///< the most batches of a worker that are not trained, or whose step no shard has
};

/// Deals mini-batches to the workers that ask, and knows which worker got which batch.
///
/// Workers ask one batch ahead, so the feeder makes the next while they compute on the last.
/// Guarantees  every sample is dealt once an epoch, over all workers; the order depends on the seed alone.
///             What a worker leaves untrained is dealt once more. While it is not known how much a lost
///             worker has trained, nobody is told that the data are exhausted.
///             A batch for a worker that has the samples itself is not made here: it gets their numbers.
/// Never       reuses the memory of a batch while an actor holds it.
///
///     dealing --stop_dealing--> exhausted
///        ^  \--the step to hold at--> holding --go_on_dealing--+
///        +-----------------------------------------------------+
///
/// In a replay each worker is held on its own, at the batch before which it was paused for a switch.
class feeder : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.feeder";

  feeder(caf::event_based_actor* self, feeder_options options);
  caf::behavior make_behavior() { return dealing(); }

private:
  caf::behavior dealing();
  caf::behavior exhausted();
  /// Who asks for a batch, and how it wants it.
  struct asking {
    caf::actor device;
    bool has_samples = false;
  };

  void on_next(const next_batch& x, asking who);
  void deal_or_hold(rank worker, asking who);
  void send_batch(const deal& dealt, const asking& to);
  void begin_incarnation(const next_batch& x) {
    dealer_.join(x.worker.value);
    if (replayed_) replayed_->begin(x.worker, x.incarnation);
    note({x.worker, x.incarnation.value, recorded_deal::kind::begun});
  }
  void note(const recorded_deal& what) {
    log_.note(what, options_.recorder ? options_.time->now() : instant{0});
  }
  std::optional<deal> deal_to(rank worker) {
    if (!replayed_) return dealer_.next(worker.value);
    const std::optional<std::uint64_t> number = replayed_->next(worker);
    return number ? dealer_.batch(*number) : std::nullopt;
  }
  void end_share_of(rank worker);
  std::size_t take_untrained(const deal_again& x);
  void feed_hungry() {
    for (auto& [worker, who] : std::exchange(hungry_, {})) deal_or_hold(worker, std::move(who));
  }
  void hold_if_reached() {
    if (options_.hold_at.empty() || dealt_ < options_.hold_at.front()) return;
    holding_ = options_.hold_at.front();
    options_.hold_at.pop_front();
    if (who_watches_) send(who_watches_, step_reached{*holding_});
  }
  /// Tells nothing before an actor watches.
  void tell_if_all_at_switch() {
    if (!replayed_ || !who_watches_) return;
    if (const auto number = replayed_->reached_switch()) send(who_watches_, step_reached{*number});
  }
  void end(const end_recording& x) {
    log_.flush();
    if (options_.recorder) send(options_.recorder, end_recording{x.what});
  }
  void go_on(const go_on_dealing& x);
  /// Records a wait that ends now.
  void trace_wait(trace_kind what) {
    if (options_.trace) options_.trace->wait(what, options_.time->now());
  }
  void resume(const feeder_position& from);
  caf::message_handler checkpoints();
  void report_cut() {
    auto part = cut_.finished(dealer_, replayed_ ? replayed_->switches_passed() : 0);
    if (!part) return;
    log_.mark(part->number, feeder_of_recording);
    send(cut_.collector(), std::move(*part));
  }
  void tell_if_checkpoint_due();

  feeder_options options_;
  dealer dealer_;
  std::uint64_t dealt_ = 0; ///< batches
  caf::actor who_watches_;
  caf::actor who_loses_;                 ///< the coordinator, once it has told of a lost worker
  std::optional<std::uint64_t> holding_; ///< the step at which it holds
  std::map<rank, asking> hungry_;        ///< workers that asked while it holds, or a share is lost
  object_pool<batch> batches_;
  order_log log_;
  std::optional<recorded_batches> replayed_;
  feeder_cut cut_;
  watch_checkpoints due_;      ///< how often a checkpoint is due
  caf::actor who_takes_them_;  ///< null: nobody
  std::uint64_t last_due_ = 0; ///< batches dealt then
  instant last_due_at_{0};
};

} // namespace mailgrad
