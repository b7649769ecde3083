#pragma once

#include <mailgrad/actors/protocol/notices.hpp>
#include <mailgrad/actors/run/feeder_cut.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/record/recorded_incarnations.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <deque>

namespace mailgrad {

struct feeder_options {
  std::shared_ptr<const dataset> samples;
  dealer_options deal;
  std::size_t nonzeros = 0; ///< for which a batch of a sparse set has room
  std::deque<std::uint64_t>
      hold_at{};         ///< ascending numbers of batches after which the feeder holds until told to go on
  caf::actor recorder{}; ///< gets each deal; null in a run that is not recorded
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
  void begin_incarnation(const next_batch& x);
  void note(const recorded_deal& what) {
    log_.note(what, options_.recorder ? options_.time->now() : instant{0});
  }
  std::optional<deal> deal_to(rank worker);
  void on_leave(const worker_left& x) {
    if (cut_.leave(x.worker, x.incarnation)) end_share_of(x.worker);
  }
  void on_lost(const share_lost& x);
  void end_share_of(rank worker);
  void take_back(const deal_again& x);
  std::size_t take_untrained(const deal_again& x);
  void feed_hungry() {
    for (auto& [worker, who] : std::exchange(hungry_, {})) deal_or_hold(worker, std::move(who));
  }
  void hold_if_reached();
  void tell_if_all_at_switch();
  void end(const end_recording& x);
  void go_on(const go_on_dealing& x);
  /// Records a wait that ends now.
  void trace_wait(trace_kind what) {
    if (options_.trace) options_.trace->wait(what, options_.time->now());
  }
  void stop();
  void resume(const feeder_position& from);
  caf::message_handler checkpoints();
  void report_cut();
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
