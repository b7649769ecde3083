#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/data/dealer.hpp>
#include <mailgrad/engine/training_options.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/optim/policies/auto_rule.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// Every decision of a run, as values. Whoever spawns its actors decides nothing any more.
struct run_plan {
  model_function model;
  std::shared_ptr<const data_split> data;
  training_options options;                               ///< checked; `replay` holds what can be repeated
  std::vector<scheduled_policy> policies;                 ///< the first, and those to switch to
  std::optional<auto_options> automatic;                  ///< asks for further switches
  model_request request;                                  ///< of the run; request_of() has that of a worker
  std::shared_ptr<const parameter_layout> layout;         ///< of the weights over the shards
  std::shared_ptr<const parameter_layout> replica_layout; ///< of the weights that a worker holds
  optimizer_options shard_rule;                           ///< turns what a shard gets into its next version
  dealer_options deal;
  std::deque<std::uint64_t>
      holds;               ///< the feeder deals no more after so many batches until told to; ascending
  std::uint64_t steps = 0; ///< mini-batches of the whole run, by all workers
  std::uint64_t recorded_steps = 0; ///< those that the recorded run had planned, in a replay
  std::size_t update_helpers =
      0;                   ///< threads that rest while a shard is at work, and take parts of its update
  bool sums_apart = false; ///< shards add up what the devices of a worker computed

  std::uint32_t workers() const;
  const std::string& first_policy() const { return policies.front().policy; }
  /// Whether any policy of the run lets workers write into one shared block.
  bool shares_block() const;
  /// Hogwild from beginning to end has none.
  bool has_shards() const;
  /// What the graph of one worker has to fit.
  model_request request_of(std::uint32_t worker) const;
};

/// Decides all that can be decided before any actor lives.
///
/// Errors  std::invalid_argument: an option, no model, no data, test samples unlike the others; graph_error:
///         a model that does not fit the data. Whether this machine has the devices is not asked:
///         require_available() does.
run_plan plan_run(model_function model, std::shared_ptr<const data_split> data, training_options options);

/// Errors  std::invalid_argument: hogwild has no order to record, since its workers write at once.
void require_recordable(const run_plan& plan);

/// Refuses a plan whose `options.replay` is a recording of another run or of one that cannot be repeated. Of
/// a run that was killed, what can be repeated takes its place.
///
/// Errors  recording_error; as require_recordable().
void plan_replay(run_plan& plan);

} // namespace mailgrad
