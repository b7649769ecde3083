#include <mailgrad/actors/run/planned_run.hpp>
#include <mailgrad/engine/plan/checked_options.hpp>
#include <mailgrad/engine/plan/resume.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>

#include <random>

namespace mailgrad {

namespace {

run_id drawn_run_id() {
  std::random_device source;
  return {std::uint64_t{source()} << 32 | source()};
}

/// They were told of the plug-ins that the policies of the options name, and of no other.
void require_known_by_hosts(const run_plan& plan, const std::string& policy) {
  const std::vector<std::string> told = plugins_of_policy(plan.options.policy);
  for (const std::string& file : plugins_of_policy(policy))
    if (std::ranges::find(told, file) == told.end())
      throw std::invalid_argument(
          fmt::format("policy '{}': parameter hosts have only the plug-ins that the run began with", policy));
  const std::size_t longest = longest_queue(plan.policies);
  if (policy_spec(policy, plan.slots()).traits().queue_length > longest)
    throw std::invalid_argument(fmt::format("policy '{}': parameter hosts have room for a queue of {}, the "
                                            "longest that the run began with",
                                            policy, longest));
}

} // namespace

run_plan plan_on_threads(model_function model, std::shared_ptr<const data_split> data,
                         training_options options, bool workers_are_here,
                         std::shared_ptr<const folder_lock>& lock) {
  for (const device d : options.devices)
    if (workers_are_here) require_here(d);
  run_plan plan = plan_run(std::move(model), std::move(data), std::move(options));
  plan.run = drawn_run_id();
  if (plan.options.replay) plan_replay(plan);
  const training_options& o = plan.options;
  lock = o.checkpoints.lock;
  if (!lock && o.resume && lies_in(o.checkpoints.folder, o.resume->path()) && !has_nothing_left(plan))
    lock = take_checkpoint_folder(o);
  if (o.resume) plan_resume(plan);
  require_keepable(plan);
  return plan;
}

training_options for_workers_elsewhere(training_options options, std::uint32_t workers,
                                       std::uint32_t devices) {
  constexpr std::uint32_t most = 1 << 20;
  if (workers == 0 || devices == 0 || workers > most / devices)
    throw std::invalid_argument(
        fmt::format("serve: expected 1 to {} devices of all workers together, found {} workers of {} devices",
                    most, workers, devices));
  if (!options.delays.empty())
    throw std::invalid_argument("delays: those of workers in other processes cannot be prescribed");
  const auto cores = std::max(static_cast<std::uint32_t>(cores_of_process().count()), devices);
  options.devices.clear();
  for (std::uint32_t d = 0; d < workers * devices; ++d)
    options.devices.push_back({device_kind::cpu, d % cores});
  options.workers = workers;
  options.elsewhere.emplace();
  return options;
}

void require_asked_switch(const run_plan& plan, run_place place, bool has_block, const std::string& policy) {
  if (plan.options.replay)
    throw std::invalid_argument("policy '" + policy + "': a replay switches as recorded");
  require_one_policy(policy);
  if (place == run_place::shards_elsewhere) require_known_by_hosts(plan, policy);
  const bool needs_shards = policy_spec(policy, plan.slots()).traits().needs_shards;
  if (place != run_place::one_process && !needs_shards)
    throw std::invalid_argument(fmt::format(
        "policy '{}': workers of other processes share no block of memory, so a run over processes "
        "cannot switch to it; choose another policy",
        policy));
  require_switch(plan.options, plan.policies, plan.cure, policy);
  require_parameter_place(plan.options, {{0, policy_spec(policy, plan.slots())}}, *plan.layout);
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
