#pragma once

#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/engine/account/early_stop.hpp>
#include <mailgrad/engine/account/run_meter.hpp>
#include <mailgrad/engine/account/tensorboard_file.hpp>
#include <mailgrad/engine/checkpoint/best_weights.hpp>
#include <mailgrad/engine/checkpoint/kept_run.hpp>
#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/policies/auto_rule.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

namespace mailgrad {

struct resumed_run {
  std::shared_ptr<const checkpoint> from;
  checkpoint_card card;
  kept_schedule schedule;
  feeder_position position;
  bool same_workers = true;           ///< if not, only the weights and what belongs to them goes on
  std::optional<kept_best> best{};    ///< the best weights so far, if the run keeps them
  judged_tests tests{};               ///< what patience has seen
  std::string products_before{};      ///< what multiplied on GPUs, if that was another version; else empty
  std::vector<std::string> remarks{}; ///< lines for the user, of what the run lacks
  /// The tests that the run stands on. Others have come after the checkpoint.
  tested_history history() const;
  /// The part of a worker or a shard, for its actor; null: it begins anew.
  std::shared_ptr<saved_fields> worker(std::uint32_t rank) const;
  std::shared_ptr<saved_fields> shard(std::uint32_t index) const;
  /// The books of the workers, by rank; empty ones of workers that begin anew, or of whom not all is known.
  std::vector<worker_report> books() const;
  /// By rank: an incarnation of the worker was lost. Empty if other workers begin anew.
  std::vector<bool> lost() const;
  /// What the workers had done that go on; nothing if other workers begin anew.
  worker_share done() const;
  std::uint64_t written() const; ///< the updates that these workers made in the block of hogwild
  /// The mini-batches of the run that `done` does not count: they were trained by workers that do not go on.
  std::uint64_t steps_before() const;
  instant elapsed() const; ///< how long it took them
};

/// Every decision of a run, as values. The code that spawns the actors decides nothing.
struct run_plan {
  run_id run; ///< chosen by the owner of the run; gradients of another run are not taken
  model_function model;
  std::shared_ptr<const data_split> data;
  training_options options;               ///< checked; `replay` holds what can be repeated
  std::vector<scheduled_policy> policies; ///< the first one, and those to switch to
  cure_spec cure{"none", 1};
  std::optional<auto_options> automatic; ///< the rule of policy auto, which asks for further switches
  model_request request;                 ///< for the whole run; request_of() gives that of a worker
  std::shared_ptr<const parameter_layout> layout;         ///< where the weights lie in the shards
  std::shared_ptr<const parameter_layout> replica_layout; ///< and those that a worker computes with
  /// float32[layout->size()]: the first weights, if the seed does not draw them; else null.
  std::shared_ptr<const std::vector<float>> first_weights;
  optimizer_options shard_rule; ///< the optimiser of the shards
  dealer_options deal;
  /// The numbers of batches after which the feeder stops until the policy has switched, ascending.
  std::deque<std::uint64_t> holds;
  std::optional<resumed_run> resumed{};
  /// What such a run has recorded before the checkpoint, if it is recorded.
  std::shared_ptr<const recording> recorded_before{};
  std::uint64_t steps = 0;          ///< mini-batches of all workers in the whole run
  std::uint64_t recorded_steps = 0; ///< in a replay: those that the recorded run had planned
  /// Threads that would sleep while a shard updates its weights, and compute parts of the update instead.
  std::size_t update_helpers = 0;
  bool has_block = false; ///< some policy of the run is hogwild, also if it is over in a run that is resumed
  bool block_alone = false; ///< the only policy is hogwild, and the block is on the host
  bool sums_apart = false;  ///< the shards add up the gradients that several devices of a worker compute

  std::uint32_t workers() const;            ///< with which the run begins
  std::uint32_t slots() const;              ///< the most that may take part, those that join later included
  std::uint32_t devices_per_worker() const; ///< several if its model spans them
  /// Whether workers may join while the run goes on. In hogwild and with a user's own parameter actor, nobody
  /// could tell what a lost worker had done. In a replay they join if they did so when it was recorded.
  bool is_elastic() const;
  /// Whether the run keeps a checkpoint of its end, from which it can be made longer. No replay is.
  bool keeps_end() const { return !options.checkpoints.folder.empty() && !options.replay; }
  /// The mini-batches of one pass over the training set. 1 if the plan has no data.
  std::uint64_t steps_per_epoch() const {
    return data ? (data->train.size() + options.batch - 1) / options.batch : 1;
  }
  /// The samples of each batch: one number, or two if the last batch of a pass is smaller.
  std::vector<std::size_t> batch_sizes() const;
  bool tests_during_run() const { return !options.evaluate_every.never() && data && judged_by().size() > 0; }
  /// The samples that they are then tested on. The plan must have data.
  const dataset& judged_by() const { return data->validation.size() > 0 ? data->validation : data->test; }
  /// What decides whether the run is trained enough. It is not active in a replay, which ends as recorded.
  early_stop enough() const;
  const policy_spec& first_policy() const { return policies.front().policy; }
  /// Whether any policy of the run lets workers write into one shared block.
  bool shares_block() const noexcept { return has_block; }
  /// Whether the run has shards; a run whose only policy is hogwild has none, unless they are on a GPU.
  bool has_shards() const noexcept { return !block_alone; }
  std::vector<float> first_values(std::size_t shard) const;
  model_request request_of(std::uint32_t worker) const;
};

/// Makes all decisions of a run before any actor is spawned. require_here() checks for the devices.
/// Errors  std::invalid_argument: an option is wrong, there is no model or no data, or the test samples are
///         unlike those for training; graph_error: the model does not fit the data.
run_plan plan_run(model_function model, std::shared_ptr<const data_split> data, training_options options);

/// Makes the plan of shards alone, for a program that sends them gradients of its own.
/// Errors  std::invalid_argument: an option is wrong, or there is no layout.
run_plan plan_shards(std::shared_ptr<const parameter_layout> layout, training_options options);

/// Requires a plan whose run has an order to record.
/// Errors  std::invalid_argument: the plan has hogwild, whose workers write to the weights at the same time.
void require_recordable(const run_plan& plan);

/// Everything that determines this run, as facts_of() has it, and the names of its model and data.
run_facts facts_and_names(const run_plan& plan);

/// Changes a plan into that of a replay of `options.replay`, of a killed run as far as it can be repeated.
/// Errors  recording_error: it is of another run, or cannot be repeated; those of require_recordable().
void plan_replay(run_plan& plan);

// How large the messages of a run over processes are at most. A peer that announces more is broken.

/// The bytes that a rule keeps besides a few floats for each weight, for all variables of a model.
std::uint64_t bytes_of_matrices(const optimizer_options& rule, const parameter_layout& layout);

/// Of those between a worker of so many devices and a shard, in bytes: a gradient, with what each further
/// device adds, and the weights that it was computed from; or two versions of weights.
std::uint64_t largest_exchange(const parameter_layout& layout, std::uint32_t devices);

/// Of all that the server of this run sends and takes, in bytes: also batches, parts of checkpoints, and the
/// terms of the shards that each of so many parameter hosts holds; 0: the server holds them.
///
/// The plan must have data.
std::uint64_t largest_body(const run_plan& plan, std::uint32_t hosts);

/// Adds the part of a report that comes from the plan, after report_of(), whose staleness and steps it uses.
void describe(training_report& r, const run_plan& plan);

/// Also adds how long the run took, with the time before it was resumed, and what became of its checkpoints.
void describe(training_report& r, const run_plan& plan, instant elapsed, const checkpoint_account& kept);

/// Adds when the policy was switched in this process of the run, which began at `started`.
void date_switches(training_report& r, const run_plan& plan, instant started);

board_options options_of(const run_plan& plan);

/// The header of this run's recording. A run that goes on with a recording repeats what that says of the
/// first weights and of workers in other processes, which must be the same.
recording_header recording_header_of(const run_plan& plan);

/// The bytes that this run still has to write beside its recording when the disk is full: the weights,
/// reports, and checkpoints until the first of them is removed for the next one.
std::uint64_t room_beside_recording(const run_plan& plan, const checkpoint_account& so_far);

/// A line for the user for each policy of the run that gathers more gradients for an update than it gets.
std::vector<std::string> update_remarks(const run_plan& plan);

} // namespace mailgrad
