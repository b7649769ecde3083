#pragma once

#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/cures/cure_spec.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <cstdint>
#include <vector>

namespace mailgrad {

/// Where the weights of a run may be cut into shards: between variables if the optimiser of the shards, the
/// cure or the user's parameter actor looks at whole ones.
shard_cuts cuts_for(const training_options& o, const optimizer_options& shard_rule, const cure_spec& cure);

/// The bytes that a rule keeps besides a few floats for each weight, for all variables of a model.
std::uint64_t bytes_of_matrices(const optimizer_options& rule, const parameter_layout& layout);

/// Refuses a rule that looks at whole variables where weights are written one by one, or lie on a card.
///
/// Errors  std::invalid_argument in one line that names the rule.
void require_whole_variables_fit(const training_options& o, const std::vector<scheduled_policy>& policies);

/// Refuses such a rule for a model with tables that it has no form for, and words for variables that there
/// are not.
///
/// Errors  std::invalid_argument in one line that names the rule, and the table or the word.
void require_whole_variables_fit(const training_options& o, const parameter_layout& layout);

} // namespace mailgrad
