#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/data/dealer.hpp>
#include <mailgrad/engine/training_options.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <string>
#include <vector>

namespace mailgrad {

// What can be said of the options of a run before any actor lives. Each refusal is one line that says what
// would be right.

/// The policies to run, if all options are right.
///
/// Errors  std::invalid_argument.
std::vector<scheduled_policy> checked_policies(const training_options& o, const data_split& data);

/// How the feeder deals.
dealer_options deal_of(const training_options& o, const data_split& data, const std::string& first_policy);

/// Whether a run of `policies` may switch to `policy` as well.
///
/// Errors  std::invalid_argument: a policy that is none, or that the cure of the run excludes.
void require_switch(const training_options& o, std::vector<scheduled_policy> policies,
                    const std::string& policy);

/// Local steps, and cures that put something in the place of a gradient, work on dense gradients.
///
/// Errors  std::invalid_argument that names a table of the model whose gradients come in rows.
void require_dense_if_needed(const training_options& o, const parameter_layout& layout);

/// The rule that turns what shards get into their next versions.
optimizer_options shard_optimizer(const training_options& o);

} // namespace mailgrad
