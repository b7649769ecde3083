#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/queue_waits.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/worker/gpu_stage.hpp>

namespace mailgrad {

struct stage_actor_options {
  std::size_t place = 0;       ///< among the worker's devices
  std::vector<device> devices; ///< the worker's
  model_function model;
  model_request request; ///< its batch is ignored
  std::shared_ptr<const parameter_layout> layout;
  std::size_t credits = 2; ///< micro-batches that a reader of its values may be behind
  std::shared_ptr<const time_source> time;
  bool sums_apart = false;              ///< see spanning_replica::options
  std::shared_ptr<gpu_stage> gpu{};     ///< if the device is a stream of a GPU; else null
  block_source blocks{};                ///< of values that a core hands on; null: memory of this process
  std::shared_ptr<event_watch> watch{}; ///< tells when the queue gets somewhere; null: that of the process
};

/// Owns one device of a worker that spans several, and the part of the model that is placed there.
///
/// Guarantees  all micro-batches of a step are computed with the weights of that step. Their parts of the
///             gradient are summed in the order of the micro-batches, whatever the order of messages. After
///             its answer, the stage holds nothing of the step.
/// Never       computes ahead of its readers by more than its credits; blocks.
///
///     idle --compute_step--> computing --all parts of all micro-batches--> idle
///                              |   ^                 '--on a GPU--> until all that is queued has run --> idle
///                no values, no credit: waiting for the mailbox
///
/// On a stream of a GPU the parts are queued. A stage on the same GPU gets values at once, with an event that
/// its queue waits for, and any other when they have come to the host.
class stage_actor : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.stage-actor";

  stage_actor(caf::event_based_actor* self, stage_actor_options options);
  /// Waits for the work on its queue.
  /// What the kernels read goes with the members.
  ~stage_actor() {
    if (options_.gpu) options_.gpu->finish();
  }
  caf::behavior make_behavior();

private:
  /// Programs for one size of micro-batch, with a pool for the values that each part computes for others.
  struct sized_program {
    stage_program code;
    std::vector<object_pool<value_set>> pools; ///< by part

    sized_program(const stage_actor_options& o, std::size_t samples, device_queue& at);
  };
  /// The values of one segment and micro-batch, kept until the last part here has read them.
  struct arrival {
    std::shared_ptr<const value_set> values;
    std::size_t readers = 0;
  };
  using arrival_key = std::pair<std::size_t, std::size_t>; // micro-batch, segment

  /// No actor waits for a GPU, so one whose queue is at work ends later.
  void quit_when_idle() {
    schedule_.reset();
    queued_.when_done([this](const std::exception_ptr&) { self_->quit(); });
  }
  void start(const compute_step& x);
  /// Each stage writes its own addend into the memory that came with the gradient.
  void own_addend(const stage_program& code) {
    dense_addend& mine = work_->into->addends[options_.place];
    mine.covered = code.added();
    const bool any = !mine.covered || !mine.covered->empty();
    if (any && mine.values.bytes() == 0) mine.values = block(work_->into->dense.bytes());
  }
  void take(const values_computed& x);
  void compute_next();
  void run(const stage_schedule::turn& t);
  void pass_on(const stage_schedule::turn& t, const std::shared_ptr<value_set>& made);
  void let_go(const stage_schedule::turn& t);
  device_queue& at() { return options_.gpu ? static_cast<device_queue&>(*options_.gpu->at()) : on_host_; }
  /// Whether kernels of that device reach the memory of this one.
  bool is_beside(device reader) const {
    const device own = options_.devices[options_.place];
    return own.kind == reader.kind && (own.kind == device_kind::cpu || own.index == reader.index);
  }
  void begin_on_gpu() {
    std::size_t runs = 0;
    for (const sized_program* p : by_micro_batch_) runs += p->code.parts().size();
    turns_.clear();
    options_.gpu->begin(work_->weights, work_->racing, by_micro_batch_.front()->code, runs, sum_);
  }
  void run_on_gpu(const stage_schedule::turn& t, std::span<const value_set* const> read, value_set& made);
  void end_on_gpu();
  void note_spans(const std::vector<gpu_stage::run_span>& spans);
  void when_queued_is_done(std::function<void()> then);
  void finish();
  void fail(const std::exception& e);
  /// Memory that GPUs reach may be lacking for a core as well, but a core is not lost with what it computes.
  std::optional<world_errc> failure_of_device(const std::exception& e) const {
    const auto* by = dynamic_cast<const device_error*>(&e);
    if (by && by->code() == world_errc::out_of_memory) return world_errc::out_of_memory;
    if (by && by->code() == world_errc::device_failure && options_.gpu) return world_errc::device_failure;
    return std::nullopt;
  }
  sized_program& program_for(std::size_t samples);
  std::size_t place_of(device d) const {
    return static_cast<std::size_t>(std::ranges::find(options_.devices, d) - options_.devices.begin());
  }
  void continue_later() {
    if (!std::exchange(continuing_, true)) send(myself(), go_on{});
  }

  stage_actor_options options_;
  weight_addresses weights_;
  host_queue on_host_;
  queue_waits queued_;
  device_clock gpu_time_;
  std::map<std::size_t, std::unique_ptr<sized_program>> programs_; ///< by samples of a micro-batch
  object_pool<row_memory> rows_;
  caf::actor worker_;
  std::shared_ptr<const step_work> work_; ///< the present step; null between two steps
  std::vector<sized_program*> by_micro_batch_;
  std::optional<stage_schedule> schedule_;
  std::vector<stage_schedule::turn> turns_; ///< that were queued on a GPU
  std::map<arrival_key, arrival> arrivals_;
  std::vector<values_computed> early_; ///< of a step that this stage does not know yet
  stage_sum sum_;
  trace_kind waits_for_ = trace_kind::stage_values;
  bool continuing_ = false; ///< a go_on is under way
  std::shared_ptr<trace_track> trace_;
  instant busy_{0};
};

} // namespace mailgrad
