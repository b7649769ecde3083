#include <mailgrad/actors/run/planned_run.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/plan/resume.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/tensor/usable_cores.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

run_id drawn_run_id() {
  std::random_device source;
  return {std::uint64_t{source()} << 32 | source()};
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

} // namespace mailgrad
