#pragma once

#include <mailgrad/actors/protocol/notices.hpp>
#include <mailgrad/actors/shard/batch_window.hpp>
#include <mailgrad/actors/shard/host_readers.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/engine/shard/shard_core.hpp>
#include <mailgrad/engine/shard/shard_port.hpp>

namespace mailgrad {

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
  caf::behavior make_behavior();

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
  void drop_checkpoint(std::uint64_t number, const caf::actor& collector);
  void quit_when_idle();

  // What the core tells at once.
  void answer(rank worker, shard_weights weights) override;
  void refuse(rank worker, step_number step) override;
  void note(const order_entry& entry) override { log_.note(entry); }
  void note_kept(std::uint64_t checkpoint) override { log_.mark(checkpoint, core_.index()); }
  void tell_followers(const order_entry& entry) override;
  void count_gap(std::uint64_t versions, instant arrived) override { gaps_.count(versions, arrived); }
  void end_gaps() override { gaps_.flush(); }

  void on_push(const push_gradient& x);
  void on_join(const join_shard& x);
  void on_leave(const worker_left& x);
  void on_mark(bool is_begun, const caf::actor& collector);
  trained_reported trained(const tell_trained& x) const;
  verdict_predicted predict(const predict_verdict& x) const;
  bool is_elsewhere(rank worker) const;

  void ask_for_help();
  void compute_part();
  void end_help();
  void report_cut();
  void tell_awaited();
  void tell_whom_it_awaits();
  void list_wait_reasons_to(const caf::actor& asker) const;
  void on_read(const read_shard& x, const caf::actor& asker);
  void begin_telling();
  std::function<void(trace_piece)> trace_to_coordinator();
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

} // namespace mailgrad
