#pragma once

#include <mailgrad/actors/protocol/lane_waits.hpp>
#include <mailgrad/actors/protocol/stage_messages.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/account/trace_track.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/worker/card_stage.hpp>
#include <mailgrad/engine/worker/mark_watch.hpp>
#include <mailgrad/engine/worker/stage_program.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace mailgrad {

struct stage_actor_options {
  std::size_t place = 0;       ///< among the worker's devices
  std::vector<device> devices; ///< the worker's
  model_function model;
  model_request request; ///< its batch is ignored
  std::shared_ptr<const parameter_layout> layout;
  std::size_t credits = 2; ///< micro-batches that a reader of its values may be behind
  std::shared_ptr<const time_source> time;
  bool sums_apart = false;             ///< see spanning_replica::options
  std::shared_ptr<card_stage> card{};  ///< if the device is a lane of a card; else null
  block_source blocks{};               ///< of values that a core hands on; null: memory of this process
  std::shared_ptr<mark_watch> watch{}; ///< tells when the lane gets somewhere; null: that of the process
};

/// Owns one device of a worker that spans several, and the part of the model that is placed there.
///
/// Guarantees  all micro-batches of a step are computed with the weights of that step. Their parts of the
///             gradient are summed in the order of the micro-batches, whatever the order of messages. After
///             its answer, the stage holds nothing of the step.
/// Never       computes ahead of its readers by more than its credits; blocks.
///
///     idle --compute_step--> computing --all parts of all micro-batches--> idle
///                              |   ^                 '--on a card--> until all that is queued has run --> idle
///                no values, no credit: waiting for the mailbox
///
/// On a lane of a card the parts are queued. A stage on the same card gets values at once, with a mark that
/// its lane waits for, and any other when they have come to the host.
class stage_actor {
public:
  static constexpr const char* name = "mailgrad.stage-actor";

  stage_actor(caf::event_based_actor* self, stage_actor_options options);
  /// Waits for what is queued on its lane.
  ~stage_actor();
  caf::behavior make_behavior();

private:
  /// Programs for one size of micro-batch, with a pool for the values that each part computes for others.
  struct sized_program {
    stage_program code;
    std::vector<object_pool<value_set>> pools; ///< by part

    sized_program(const stage_actor_options& o, std::size_t samples, lane& at);
  };
  /// The values of one segment and micro-batch, kept until the last part here has read them.
  struct arrival {
    std::shared_ptr<const value_set> values;
    std::size_t readers = 0;
  };
  using arrival_key = std::pair<std::size_t, std::size_t>; // micro-batch, segment

  void quit_when_idle();
  void start(const compute_step& x);
  void own_addend(const stage_program& code);
  void take(const values_computed& x);
  void compute_next();
  void run(const stage_schedule::turn& t);
  void pass_on(const stage_schedule::turn& t, const std::shared_ptr<value_set>& made);
  void let_go(const stage_schedule::turn& t);
  lane& at() { return options_.card ? static_cast<lane&>(*options_.card->at()) : on_host_; }
  bool is_beside(device reader) const;
  void begin_on_card();
  void run_on_card(const stage_schedule::turn& t, std::span<const value_set* const> read, value_set& made);
  void end_on_card();
  void note_spans(const std::vector<card_stage::run_span>& spans);
  void when_queued_is_done(std::function<void()> then);
  void finish();
  void fail(const std::exception& e);
  std::optional<world_errc> failure_of_device(const std::exception& e) const;
  sized_program& program_for(std::size_t samples);
  std::size_t place_of(device d) const;
  void continue_later();

  caf::event_based_actor* self_;
  stage_actor_options options_;
  weight_addresses weights_;
  host_lane on_host_;
  lane_waits queued_;
  device_clock card_time_;
  std::map<std::size_t, std::unique_ptr<sized_program>> programs_; ///< by samples of a micro-batch
  object_pool<row_memory> rows_;
  caf::actor worker_;
  std::shared_ptr<const step_work> work_; ///< the present step; null between two steps
  std::vector<sized_program*> by_micro_batch_;
  std::optional<stage_schedule> schedule_;
  std::vector<stage_schedule::turn> turns_; ///< that were queued on a card
  std::map<arrival_key, arrival> arrivals_;
  std::vector<values_computed> early_; ///< of a step that this stage does not know yet
  stage_sum sum_;
  trace_kind waits_for_ = trace_kind::stage_values;
  bool continuing_ = false; ///< a go_on is under way
  std::shared_ptr<trace_track> trace_;
  instant busy_{0};
};

} // namespace mailgrad
