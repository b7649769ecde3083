#include <mailgrad/actors/run/asked_switch.hpp>

#include <mailgrad/engine/plan/checked_options.hpp>
#include <mailgrad/engine/plan/parameter_place.hpp>
#include <mailgrad/optim/policies/policy_schedule.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <vector>

namespace mailgrad {

namespace {

/// They were told of the plug-ins that the policies of the options name, and of no other.
void require_known_by_hosts(const run_plan& plan, const std::string& policy) {
  const std::vector<std::string> told = plugins_of_policy(plan.options.policy);
  for (const std::string& file : plugins_of_policy(policy))
    if (std::ranges::find(told, file) == told.end())
      throw std::invalid_argument(
          fmt::format("policy '{}': parameter hosts have only the plug-ins that the run began with", policy));
  const std::size_t longest = longest_queue(plan.policies);
  if (policy_spec(policy, plan.seats()).traits().queue_length > longest)
    throw std::invalid_argument(fmt::format("policy '{}': parameter hosts have room for a queue of {}, the "
                                            "longest that the run began with",
                                            policy, longest));
}

} // namespace

void require_asked_switch(const run_plan& plan, run_place place, bool has_block, const std::string& policy) {
  if (plan.options.replay)
    throw std::invalid_argument("policy '" + policy + "': a replay switches as recorded");
  require_one_policy(policy);
  if (place == run_place::shards_elsewhere) require_known_by_hosts(plan, policy);
  const bool needs_shards = policy_spec(policy, plan.seats()).traits().needs_shards;
  if (place != run_place::one_process && !needs_shards)
    throw std::invalid_argument(fmt::format(
        "policy '{}': workers of other processes share no block of memory, so a run over processes "
        "cannot switch to it; choose another policy",
        policy));
  require_switch(plan.options, plan.policies, plan.cure, policy);
  require_parameter_place(plan.options, {{0, policy_spec(policy, plan.seats())}}, *plan.layout);
  if (!plan.has_shards())
    throw std::invalid_argument("policy '" + policy + "': hogwild has no shards to switch");
  if (!needs_shards && !has_block)
    throw std::invalid_argument(
        "policy 'hogwild': this run has no block to share; name hogwild among its policies");
  if (plan.options.parameter_actor && !plan.options.parameter_actor->switches)
    throw std::invalid_argument("parameter actor '" + plan.options.parameter_actor->name +
                                "' switches no policy");
}

} // namespace mailgrad
