#pragma once

#include <mailgrad/actors/protocol/notices.hpp>
#include <mailgrad/actors/protocol/queue_waits.hpp>
#include <mailgrad/engine/plan/terms.hpp>
#include <mailgrad/engine/shard/shard_core.hpp>
#include <mailgrad/engine/worker/step_timer.hpp>

#include <list>

namespace mailgrad {

/// Sends the actor of a shard `window_over` when a batch shall be applied though others could still come.
class batch_window {
public:
  /// `timer` may be null: it is then that of the process, which is asked for when a window first opens.
  batch_window(caf::event_based_actor* self, std::shared_ptr<step_timer> timer);
  ~batch_window();
  batch_window(const batch_window&) = delete;
  batch_window& operator=(const batch_window&) = delete;

  /// The pending batch closes at this moment, in ns of the run's time source, or at none.
  ///
  /// Errors  std::logic_error: all actors are on one thread, and this one has no timer, so that the timer of
  ///         the process would send from its own.
  void watch(std::optional<std::int64_t> closes_at);

private:
  struct receiver;
  std::shared_ptr<receiver> receiver_;
  std::shared_ptr<step_timer> timer_;
  std::optional<std::int64_t> asked_; ///< the last moment
};

/// Serves those who read on the host what a shard has: tests, checkpoints, and the report of the run. What
/// lies on a GPU is copied first, and the actor handles other messages meanwhile (queue_waits).
class host_readers {
public:
  /// `watch` tells when copies have come; null: that of the process, if it is needed.
  host_readers(caf::event_based_actor* self, std::shared_ptr<shard> weights,
               std::shared_ptr<event_watch> watch, std::shared_ptr<const time_source> time)
      : weights_(std::move(weights)), time_(std::move(time)), waits_(self, weights_->at(), std::move(watch)) {
  }

  /// Calls `then` when all copies have come that the shard has queued, now or from serve(), in the order of
  /// the calls.
  ///
  /// Errors  device_error, out_of_memory: no event could be recorded behind them. `then` is not called, and
  ///         those that wait go on waiting.
  void when_copied(std::function<void()> then);
  /// Calls `then` in the same way, also if the GPU is lost.
  void when_idle(std::function<void()> then) {
    waits_.when_done([then = std::move(then)](const std::exception_ptr&) { then(); });
  }
  /// Calls `then` with weights of the shard, in the same way.
  void give(const snapshot& values, std::function<void(const snapshot&)> then) {
    when_copied([then = std::move(then), copy = weights_->on_host(values)] { then(copy); });
  }

  /// To be called at each `weights_copied`.
  ///
  /// Errors  device_error: the GPU is lost.
  void serve() { waits_.serve(); }

  /// "shard 0 waits for its weights to come from the GPU, for 2 of those who asked"; nothing if it does not.
  std::optional<wait_reason> blocked_on() const;

private:
  std::shared_ptr<shard> weights_;
  std::shared_ptr<const time_source> time_;
  std::list<instant> asked_; ///< when each of those asked whose copies have not come
  queue_waits waits_;
};

/// Computes parts of an update for a shard that asks for help. A run has one for each of its threads but the
/// first, for all shards.
///
/// Guarantees  the helper that computes the last part tells the shard. A helper that comes late finds no part
///             left, and one that dies between two parts leaves none unfinished.
/// Never       waits; begins a part of an update that has ended.
class update_helper : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.update-helper";

  explicit update_helper(caf::event_based_actor* self) : actor_part(self) {}
  caf::behavior make_behavior() {
    return {
        on([this](const help_update& x) { help(x); }),
        on([this](const give_up&) { self_->quit(); }),
    };
  }

private:
  void help(const help_update& x) {
    parallel_update::progress done{};
    try {
      done = x.work->compute_part();
    } catch (const std::exception& e) {
      return send(x.shard, update_failed{e.what()});
    }
    if (done == parallel_update::progress::computed)
      send(myself(), x);
    else if (done == parallel_update::progress::complete)
      send(x.shard, update_helped{});
  }
};

// What a shard waits for, and which workers wait for the shard. `workers` is by rank.

/// "shard 0 switches to sync when it has the last gradient of worker 1 (heard 0.2 s ago)"
wait_reason wait_for_switch(shard_index shard, const switch_policy& next, instant asked,
                            std::span<const worker_slot> workers, instant now);

/// What the order of a shard that follows waits for: "shard 0 tells its turn", or "it has the gradient of
/// worker 2's step 7, whose turn is first". Empty if the shard follows none.
std::string awaited_in_order(const gradient_order& order);

/// "shard 0 holds worker 1 after step 17, sync policy, until it hears from worker 0 (heard 0.2 s ago)", for
/// each held worker. One whose gradient is here, or who has joined, and whose turn has not come waits for
/// `in_order`.
std::vector<wait_reason> waits_of_workers(shard_index shard, std::string_view policy,
                                          std::span<const worker_slot> workers, std::string_view in_order,
                                          instant now);

/// The options of a parameter actor: what its core begins with, and the others of the run.
struct parameter_actor_options : shard_core_options {
  caf::actor tracker;
  /// For the first shard: all other shards, which judge in its order if the policy requires it.
  std::vector<caf::actor> followers{};
  caf::actor recorder{};                       ///< gets the order in which gradients are judged; may be null
  std::shared_ptr<const recording> replayed{}; ///< the run to repeat: gradients are judged in its order
  caf::actor tells_trace_to{};       ///< a coordinator elsewhere; null: the timeline goes with the report
  std::vector<caf::actor> helpers{}; ///< help with an update while every worker waits for it
  std::shared_ptr<const parameter_layout> layout{}; ///< of the run: which variables lie where in which shard
  notice_pace pace{};                               ///< how often the tracker is told of gradients
  std::shared_ptr<event_watch> watch{}; ///< if the weights lie on a GPU; null: that of the process
  /// By rank, if the weights lie on a GPU: whether the worker computes elsewhere. It is sent copies that lie
  /// on the host, and its gradients come from there.
  std::vector<bool> elsewhere{};
  /// Tells when a policy closes a batch; null: the timer of this process, by the monotonic clock.
  std::shared_ptr<step_timer> timer{};
  /// Of one shard of a process: what its process waits for besides, such as workers that it has let in. Any
  /// thread.
  std::function<std::vector<wait_reason>()> waits_here{};
  /// Of a process whose workers share credit: is told whom the batch awaits first, and the version, when
  /// either changes; nothing while gradients have no turns. It must not block.
  std::function<void(std::optional<rank> first, version_number version)> awaits{};
};

/// Owns one shard: moves messages between its core, which judges and updates, and the others of the run.
///
/// Guarantees  those of shard_core.
/// Never       blocks, or judges anything itself.
///
///     serving --push_gradient--> the core takes it --shard_weights--> each worker that may start
///
/// If memory of a GPU is lacking, the weights are whole, so it takes no further gradient and keeps them for
/// the report of the run:
///
///     serving --memory is lacking--> failed --shard_failed--> every device, and who asks for the report
///
/// While every worker waits here, helpers compute parts of the update. All messages wait until it has ended:
///
///     serving --all wait, several parts--> updating --last part computed--> serving
class parameter_actor : messaging::actor_part, private shard_port {
public:
  static constexpr const char* name = "mailgrad.parameter-actor";

  parameter_actor(caf::event_based_actor* self, parameter_actor_options options);
  parameter_actor(const parameter_actor&) = delete;
  parameter_actor& operator=(const parameter_actor&) = delete;
  caf::behavior make_behavior() {
    core_.begin();
    settle();
    options_.resumed.reset();
    return serving();
  }

private:
  caf::behavior serving();
  caf::behavior updating();
  caf::behavior failed();
  caf::message_handler questions();
  /// Tells the core what happens, and does what follows from it. It may need memory of a GPU.
  template <class Event>
  void take(const Event& happens) {
    if (failure_) return;
    try {
      happens();
      settle();
    } catch (const out_of_memory& e) {
      fail(e.what());
    }
  }
  void settle();
  void fail(const std::string& why);
  /// A collector that is not known yet comes with a marker, or asks itself.
  void drop_checkpoint(std::uint64_t number, const caf::actor& collector) {
    const std::string part = fmt::format("shard {}", core_.index().value);
    if (collector) send(collector, checkpoint_failed{number, part, *failure_});
  }

  // What the core tells at once.
  void answer(rank worker, shard_weights weights) override;
  void refuse(rank worker, step_number step) override {
    send(devices_[worker.value], entry_missing{core_.index(), step});
  }
  void note(const order_entry& entry) override { log_.note(entry); }
  void note_kept(std::uint64_t checkpoint) override { log_.mark(checkpoint, core_.index()); }
  void tell_followers(const order_entry& entry) override {
    for (const caf::actor& shard : options_.followers) send(shard, entry);
  }
  void count_gap(std::uint64_t versions, instant arrived) override { gaps_.count(versions, arrived); }
  void end_gaps() override { gaps_.flush(); }

  void on_join(const join_shard& x);
  void on_leave(const worker_left& x) {
    take([&] {
      if (core_.leave(x.worker, x.incarnation)) devices_[x.worker.value] = nullptr;
    });
  }
  void on_mark(bool is_begun, const caf::actor& collector) {
    if (is_begun && collector) collector_ = collector;
    report_cut();
  }
  trained_reported trained(const tell_trained& x) const;
  bool is_elsewhere(rank worker) const {
    return worker.value < options_.elsewhere.size() && options_.elsewhere[worker.value];
  }

  void ask_for_help();
  void compute_part() {
    using progress = parallel_update::progress;
    const progress done = core_.compute_part();
    if (done == progress::computed) send(myself(), go_on{});
    if (done == progress::complete) end_help();
  }
  void end_help();
  void report_cut();
  /// An update that is under way makes a version, so it is told when that has ended.
  void tell_awaited() {
    if (core_.work()) return;
    if (options_.awaits) tell_whom_it_awaits();
    core_.release_credit();
  }
  void tell_whom_it_awaits();
  void list_wait_reasons_to(const caf::actor& asker) const;
  void on_read(const read_shard& x, const caf::actor& asker);
  /// A worker is there, so the coordinator is as well.
  void begin_telling() {
    if (!std::exchange(tells_trace_, true)) teller_.begin();
  }
  std::function<void(trace_piece)> trace_to_coordinator() {
    if (!options_.tells_trace_to) return nullptr;
    return [this](trace_piece piece) {
      send(options_.tells_trace_to, shard_trace_reported{options_.weights->index(), std::move(piece)});
    };
  }
  void on_report_asked();

  parameter_actor_options options_;
  std::vector<caf::actor> devices_; ///< by rank; null: it is not here
  order_log log_;
  gap_notices gaps_;
  trace_teller teller_;
  host_readers readers_;
  shard_core core_; ///< goes before `readers_`, whose copies its GPU may still write
  batch_window window_;
  caf::actor coordinator_; ///< that asked for a switch
  caf::actor collector_;   ///< of checkpoints; null: not known yet
  /// What awaits() was told.
  struct awaited {
    std::optional<rank> first{};
    version_number version{};
  };
  std::optional<awaited> reported_awaited_;
  std::optional<std::string> failure_; ///< why it takes no further gradient
  bool tells_trace_ = false;           ///< it has begun
};

/// Where the weights of a shard lie.
struct shard_memory {
  block_source blocks{};       ///< null: in its process
  std::optional<device> gpu{}; ///< on which they lie instead
};

/// Spawns the parameter actor of a shard: Mailgrad's, or one of the kind `own`. `with` are the other actors,
/// and what is made here; what the terms say is added. A handle may be an actor of this process, or one that
/// stands in for an actor of another.
///
/// Errors  std::invalid_argument: a kind that cannot be spawned.
caf::actor spawn_shard(caf::actor_system& system, shard_terms terms, parameter_actor_options with,
                       shard_memory at, const parameter_actor_kind* own = nullptr);
/// Errors  as spawn_shard().
void require_spawnable(const parameter_actor_kind& kind);

} // namespace mailgrad
