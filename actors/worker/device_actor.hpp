#pragma once

#include <mailgrad/actors/protocol/queue_waits.hpp>
#include <mailgrad/actors/worker/exchange.hpp>
#include <mailgrad/actors/worker/spawn_worker.hpp>
#include <mailgrad/engine/worker/local_samples.hpp>

namespace mailgrad {

/// A worker's part of a checkpoint, as it was when the worker set its marker.
struct marked_part {
  std::uint64_t checkpoint = 0;
  std::shared_ptr<saved_fields> fields; ///< without the report
  worker_report report;                 ///< up to its last step, of which the loss may still be missing
};

/// Parts of checkpoints that wait for the losses of steps before their marker. A worker may push a gradient
/// before its step has ended, and what it tells of the run must not depend on that.
class marked_parts {
public:
  bool empty() const noexcept { return parts_.empty(); }
  void add(marked_part x) { parts_.push_back(std::move(x)); }
  /// A step has ended with this loss.
  void note_loss(std::uint64_t step, float loss, std::size_t samples) {
    for (marked_part& p : parts_)
      if (step <= p.report.steps) p.report.note_loss(loss, samples);
  }
  /// Takes those whose steps have all ended, of which `step` was the last, in the order of their markers.
  std::vector<marked_part> take(std::uint64_t step) {
    std::vector<marked_part> whole;
    while (!parts_.empty() && parts_.front().report.steps <= step) {
      whole.push_back(std::move(parts_.front()));
      parts_.erase(parts_.begin());
    }
    return whole;
  }

private:
  std::vector<marked_part> parts_; ///< in the order of their markers
};

/// The options of a device actor: its terms, whom it talks to, and what is made for it here.
struct device_actor_options {
  worker_terms terms;
  worker_peers peers;
  std::shared_ptr<step_runner> runner; ///< owned by the actor while it lives
  /// Makes the handlers of messages to this actor that are meant for its runner, if it has actors of its own.
  std::function<caf::message_handler(caf::event_based_actor*)> runner_hears{};
  std::shared_ptr<hogwild_writer> writer; ///< for hogwild; owned by the actor while it lives
  bool direct = false;                    ///< the first policy is hogwild
  std::vector<std::size_t> shard_begins;  ///< where each shard begins in the shared block; {0} without shards
  std::shared_ptr<local_steps> local;     ///< with local steps only; owned by the actor while it lives
  std::shared_ptr<device_queue> works_in{}; ///< of what the actor itself queues; null: that of the host
  std::shared_ptr<event_watch> watch{}; ///< of that queue, if it is one of a GPU; null: that of the process
  /// Adds gradients up over all workers before they go to the shards; null: each goes there by itself.
  std::shared_ptr<net::all_reduce> sums{};
  std::shared_ptr<local_batches> samples{}; ///< cuts its batches; null: the feeder sends them
  notice_pace pace{};                       ///< how often the tracker is told of steps
  std::shared_ptr<const time_source> time;
  std::shared_ptr<trace_track> trace{};  ///< the timeline; owned by the actor while it lives
  std::shared_ptr<trace_track> copies{}; ///< that of batches copied ahead; owned by the actor while it lives
  std::string tells_trace{}; ///< as the worker on this device, to a coordinator elsewhere; empty: it does not
  bool ends_with_gpu = false; ///< it is lost with the GPU it computes on, and the run goes on
};

/// One worker. It feeds its runner with mini-batches and delivers each gradient through its exchange, which
/// gets the weights of the next step.
///
/// If weights and gradients lie where the runner computes, it runs ahead: it pushes a gradient as soon as its
/// step has begun, and begins the next step when the shards have answered and at most one step is under way.
/// What a step tells, such as its loss, comes with its end.
///
/// If the runner computes a step only when that has ended, as in simulated time, the worker first asks the
/// shards whether they will discard the gradient. If all will, the step is skipped and its loss never known.
///
/// Guarantees  a pause or an end comes between two steps (step_gate). A worker that gives up says so at once,
///             but keeps what its runner works on until the steps under way have ended.
/// Never       blocks, unless its runner computes within the call.
///
/// If it ends with its GPU, a worker whose GPU fails is a lost worker: it ends at once with words, and what
/// it had sent counts as that of any lost worker. Any other error fails the run, since the next worker would
/// meet it as well.
///
///     waiting for a slot (if it is late) --slot_given--> joining --weights of all shards, a batch--> computing
///     computing --delivered--> waiting --weights of all shards, a batch--> computing
///     waiting --data exhausted, or it leaves--> finished
///     computing --loss not finite, step failed--> finished
///
/// checkpoint_messages.hpp says how it marks and ends, and run_messages.hpp how a switch of policy pauses it.
class device_actor : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.device-actor";

  device_actor(caf::event_based_actor* self, device_actor_options options);
  /// The runner goes first: it ends the step under way, which reads the weights that are held here.
  ~device_actor() { options_.runner.reset(); }
  device_actor(const device_actor&) = delete;
  device_actor& operator=(const device_actor&) = delete;
  caf::behavior make_behavior();

private:
  worker_context context();
  caf::behavior waiting_for_a_slot();
  caf::behavior training() {
    if (!options_.runner_hears) return messages_of_a_run();
    return messages_of_a_run().or_else(options_.runner_hears(self_));
  }
  /// Not if the worker itself reads a gradient on the host before it is pushed.
  bool may_run_ahead() const {
    const bool local_on_host = options_.local && !is_on_gpu(*options_.local->at());
    const bool reads_gradients = local_on_host || options_.sums || options_.writer ||
                                 options_.terms.clip_norm != 0 || options_.terms.sample_gap > 0;
    return options_.runner->most_under_way() > 1 && !reads_gradients;
  }
  caf::message_handler messages_of_a_run();
  void take(const slot_given& x);
  void join();

  /// What local steps keep may need memory of a GPU. The coordinator knows of this worker by now, and hears
  /// if that is lacking, and after which step.
  void go_on_from_checkpoint() {
    if (!options_.terms.resumed) return;
    or_fail(report_.steps, [this] { keep_report(*options_.terms.resumed); });
    or_fail(report_.steps, [this] { keep_beside_report(*options_.terms.resumed); });
    options_.terms.resumed.reset();
  }
  /// Reads what the worker had done.
  void keep_report(archive& a) {
    const rank me = report_.worker;
    a.field("report", report_);
    if (report_.worker != me)
      throw archive_error(fmt::format("report: is of worker {}", report_.worker.value));
  }
  void keep_beside_report(archive& a);
  void mark(std::uint64_t checkpoint);
  std::string name_of_part() const { return fmt::format("worker {}", options_.terms.worker.value); }
  void send_part(marked_part part);
  void on_hold(const hold_for_checkpoint& x) {
    if (x.number <= marked_ || gate_.finished()) return;
    gate_.ask_for_hold(x.number);
    stand_still_if_asked();
  }
  void stand_still_if_asked();
  void go_on_after(const block_copied& x);
  void on_mark_at_end(const mark_at_end& x) {
    end_marker_ = x.number;
    start_step_if_ready();
  }
  bool waits_to_end();

  void on_weights(const shard_weights& x);
  void cut_batch(const dealt_samples& x);
  /// A worker that waits to end does so before the switch, as it does in a replay, where none waits.
  void on_pause(const pause_worker& x) {
    if (at_end_since_ && !end_marker_) on_mark_at_end({});
    gate_.ask_for_pause(x);
    pause_if_asked();
  }
  void flush_before_switch();
  void pause_if_asked();
  void start_step_if_ready();
  void wait_for_batch() {
    if (!starved_since_ && gate_.steps().empty()) starved_since_ = options_.time->now();
  }
  void end_wait_for_batch() {
    if (!starved_since_) return;
    const instant now = options_.time->now();
    report_.feeder_wait += (now - *std::exchange(starved_since_, std::nullopt)).count();
    if (options_.trace) options_.trace->wait(trace_kind::batch, now);
  }

  void ask_for_batch() {
    send(options_.peers.feeder,
         next_batch{options_.terms.worker, options_.terms.incarnation, options_.samples != nullptr});
  }
  /// As a rule during the step before, since batches are asked for one ahead.
  void foresee() {
    if (!next_batch_ || !options_.runner->copies_ahead()) return;
    or_fail(report_.steps + 1, [this] { options_.runner->foresee(next_batch_, copy_notice()); });
  }
  std::function<void()> copy_notice() const;
  void start_step();
  void compute(std::shared_ptr<const batch> inputs, bool repeats = false);
  void push_ahead(begun_step& step);
  void on_step_ended() {
    if (!gate_.finished() && asks_whether_discarded()) return lines_.ask_whether_discarded();
    end_oldest_step();
  }
  void end_oldest_step();
  /// Not if the worker itself reads the gradient.
  bool asks_whether_discarded() const {
    const bool over_shards = exchange_ == over_shards_.get() && lines_.count() > 0;
    return options_.runner->computes_at_end() && over_shards && exchange_->only_pushes() &&
           !gate_.steps().empty() && !gate_.steps().oldest().repeats;
  }
  void on_predicted(const verdict_predicted& x);
  /// The gradient of the step is pushed now, and the shards will answer.
  void on_sum(const gradients_summed& x) {
    or_fail(report_.steps, [&] { exchange_->take_sum(x); });
    pause_if_asked();
    start_step_if_ready();
  }
  void end_of_work();
  void deliver_skipped(const begun_step& ended);
  void go_on_after_step() {
    flush_before_switch();
    pause_if_asked();
    stand_still_if_asked();
    start_step_if_ready();
  }
  void end_repeat(begun_step ended) {
    exchange_->take_repeat(*ended.values);
    if (options_.trace)
      options_.trace->work({trace_kind::compare, ended.since, options_.time->now(), 0, lines_.step().value});
  }
  void deliver(begun_step ended, float loss);
  void end_pushed(const begun_step& ended, float loss);
  /// From now on the batch of the step counts as trained.
  void note_step(const begun_step& begun) {
    ++report_.steps;
    report_.samples += begun.samples;
  }
  void note_loss(const begun_step& ended, float loss) {
    report_.note_loss(loss, ended.samples);
    marked_parts_.note_loss(ended.number, loss, ended.samples);
    notices_.count(ended.samples, loss);
  }
  device_span note_computed(const begun_step& ended, instant now);
  float clip(const gradient& g) const;
  void tell_progress(instant now) {
    notices_.notify_if_due(now, report_);
    timeline_.tell_if_due(now);
  }

  /// Does the work of a step. If that throws, the worker has failed in this step.
  template <class Work>
  void or_fail(std::uint64_t step, const Work& work) {
    if (gate_.finished()) return;
    try {
      work();
    } catch (const device_error& e) {
      if (gate_.finished()) return; // it has failed within this work before
      if (options_.ends_with_gpu && e.code() == world_errc::device_failure)
        lose_gpu(step, e.what());
      else
        fail_by_device(step, e);
    } catch (const std::exception& e) {
      fail(step, e.what());
    }
  }
  /// Nothing that it had on the GPU is to be trusted, and nobody takes part from here again.
  void lose_gpu(std::uint64_t step, const std::string& why) {
    gate_.end();
    messaging::quit_with_words(self_, fmt::format("its GPU failed in step {}: {}", step, why));
  }
  void fail(std::uint64_t step, const std::string& why) {
    if (!gate_.finished()) end_with(worker_failed{report_, step, why});
  }
  void fail_by_device(std::uint64_t step, const device_error& e);
  /// If the gradient was pushed before, no checkpoint of behind it is of use.
  void diverge(std::uint64_t step) {
    static_cast<void>(marked_parts_.take(report_.steps));
    end_with(loss_diverged{report_, step});
  }
  void finish(const std::string& why_left = {}) {
    if (gate_.finished()) return;
    end_with(worker_finished{report_, {}, why_left, kept_of_block()});
  }
  std::shared_ptr<saved_fields> kept_of_block();
  void give_batches_back() {
    send(options_.peers.feeder,
         deal_again{options_.terms.worker, options_.terms.incarnation, lines_.trained()});
  }
  /// The batch that it has in hand or asked for is for others.
  void leave() {
    give_batches_back();
    tell_owner();
    finish("its owner asked for it");
  }
  /// That it leaves before the run has ended.
  void tell_owner() {
    if (owner_) send(owner_, worker_left{options_.terms.worker, options_.terms.incarnation});
  }
  template <class Notice>
  void end_with(Notice notice);
  /// Steps that are given up still read the weights that are held here.
  void quit_if_through() {
    if (reported_ && gate_.steps().empty()) self_->quit();
  }
  void list_wait_reasons_to(const caf::actor& asker) const;

  device_actor_options options_;
  worker_report report_;
  bool runs_ahead_;
  step_gate gate_;
  shard_lines lines_;
  std::unique_ptr<exchange> over_shards_;      ///< pushes gradients, sums, or the differences of local steps
  std::unique_ptr<block_exchange> into_block_; ///< hogwild; null if no policy is
  exchange* exchange_;                         ///< the one that the present policy needs
  progress_notices notices_;
  trace_teller timeline_;

  object_pool<gradient> gradients_;
  queue_waits queued_;            ///< work that the exchange has queued
  instant summing_since_{0};      ///< when the step began whose gradient is added up with those of others
  std::uint64_t batches_ = 0;     ///< number of batches begun
  device_clock device_time_;      ///< of a device that says when it computed
  std::vector<instant> computed_; ///< how long its steps took that no shard has been told of

  std::shared_ptr<const batch> next_batch_;
  std::optional<instant> starved_since_; ///< set while weights are there and a batch is not
  caf::actor owner_;                     ///< who asked it to leave; null: no actor, or nobody did
  bool reported_ = false;
  std::uint64_t marked_ = 0;                ///< the last checkpoint
  std::optional<instant> at_end_since_;     ///< when it asked whether it may end
  std::optional<std::uint64_t> end_marker_; ///< the checkpoint of the end; 0: there is none
  marked_parts marked_parts_;
};

} // namespace mailgrad
