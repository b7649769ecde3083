#pragma once

#include <mailgrad/data/dealer.hpp>
#include <mailgrad/engine/account/early_stop.hpp>
#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

namespace mailgrad {

// Checks of a run's options: the table in checked_options.cpp says what excludes what, and what to do.

/// Refuses devices that cannot be divided evenly among the workers.
/// Errors  std::invalid_argument: no device, or no multiple of the workers; fewer slots than workers; a
///         device of a worker twice; no micro-batches, or several for workers of one device each.
void require_worker_devices(const training_options& o);

/// Refuses products in TF32 or bfloat16 (training_options::precision) for a worker on a core.
/// Errors  std::invalid_argument in one line that names the device.
void require_precision(const std::vector<device>& devices, product_precision p);

/// Refuses steps ahead (training_options::run_ahead) of a run in which no worker can begin any, but a replay.
/// Errors  std::invalid_argument in one line that says what keeps workers from it.
void require_run_ahead(const training_options& o, const std::vector<scheduled_policy>& policies);

/// What a run needs whose workers add their gradients up before a shard sees them
/// (training_options::all_reduce): one policy, sync, under which every update takes a gradient of every
/// worker, and nothing that looks at the gradient of one worker.
/// Errors  std::invalid_argument in one line that names the option and says why it cannot be.
void require_sums_can_be(const training_options& o);

/// Checks all options that need neither model nor data, after require_worker_devices().
/// Errors  std::invalid_argument.
std::vector<scheduled_policy> checked_policies(const training_options& o, const cure_spec& cure);

/// Requires data that the options can be used with.
/// Errors  std::invalid_argument: no sample, too few for a batch or for a switch, or no text to write.
void require_data_for(const training_options& o, const std::vector<scheduled_policy>& policies,
                      const data_split& data);

dealer_options deal_of(const training_options& o, const data_split& data, const policy_spec& first_policy);

/// Requires that a run of `policies` may also switch to `policy`.
/// Errors  std::invalid_argument: there is no such policy, or the cure of the run or its sums exclude it.
void require_switch(const training_options& o, std::vector<scheduled_policy> policies, const cure_spec& cure,
                    const std::string& policy);

/// Requires a model without tables, if the run has local steps, a cure that replaces gradients, or sums.
/// Errors  std::invalid_argument that names such a table.
void require_dense_if_needed(const training_options& o, const cure_spec& cure,
                             const parameter_layout& layout);

/// Refuses weights on a GPU for a model with tables, if anything is elsewhere or reads rows on the host.
/// Errors  std::invalid_argument in one line, which names the first table.
void require_parameter_place(const training_options& o, const std::vector<scheduled_policy>& policies,
                             const parameter_layout& layout);

/// Refuses a rule of whole variables that has no form for the tables of the model, and words for no variable.
/// Errors  std::invalid_argument in one line that names the rule, and the table or the word.
void require_whole_variables_fit(const training_options& o, const parameter_layout& layout);

/// The optimiser of the shards: with local steps the outer one, in either case adapted to the cure.
optimizer_options shard_optimizer(const training_options& o, const cure_spec& cure);

/// The conditions under which a run ends early, with the samples that it is tested on. `data` may be null.
/// Errors  std::invalid_argument, as parse_stop_conditions().
std::vector<stop_condition> stop_conditions_of(const training_options& o, const data_split* data);

} // namespace mailgrad
