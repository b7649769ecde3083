#include <mailgrad/engine/plan/largest_body.hpp>

#include <mailgrad/data/batch.hpp>
#include <mailgrad/optim/rules/shampoo.hpp>

#include <algorithm>

namespace mailgrad {

std::uint64_t bytes_of_matrices(const optimizer_options& rule, const parameter_layout& layout) {
  const auto* shampoo = std::get_if<shampoo_options>(&rule.rule);
  if (!shampoo) return 0;
  std::uint64_t bytes = 0;
  for (const placed_variable& v : layout.variables())
    if (!v.sparse) bytes += floats_of_matrices(*shampoo, v.dims) * sizeof(float);
  return bytes;
}

namespace {

/// For what stands beside values: graphs, names, and the reports of long runs.
constexpr std::uint64_t room = 16 << 20;

std::uint64_t largest_shard(const parameter_layout& layout) {
  std::uint64_t largest = 0;
  for (std::size_t s = 0; s < layout.shard_count(); ++s)
    largest = std::max<std::uint64_t>(largest, layout.shard(s).size() * sizeof(float));
  return largest;
}

std::uint64_t batch_bytes(const run_plan& plan) {
  batch largest;
  shape_batch(plan.data->train, plan.deal.batch_size, plan.request.nonzeros, largest);
  return bytes_of(largest);
}

/// Weights, the state of the optimiser and of the cure; for each worker the gradients of its devices that
/// wait, with the weights that they were computed from, the last answer, and what the cure keeps; and what
/// waits in the longest queue, each with its weights.
std::uint64_t shard_state(const run_plan& plan) {
  const std::uint64_t of_worker = 7 + std::uint64_t{plan.devices_per_worker()};
  const std::uint64_t queued = 2 * std::uint64_t{longest_queue(plan.policies)};
  return largest_shard(*plan.layout) * (4 + of_worker * plan.seats() + queued) +
         bytes_of_matrices(plan.shard_rule, *plan.layout);
}

/// Of local steps: weights, the state of the optimiser, the weights read last, and a step that is held.
std::uint64_t worker_state(const run_plan& plan) {
  return plan.layout->size() * sizeof(float) * 6 + bytes_of_matrices(plan.options.optimizer, *plan.layout);
}

} // namespace

std::uint64_t largest_exchange(const parameter_layout& layout, std::uint32_t devices) {
  return (2 + std::uint64_t{devices}) * largest_shard(layout) + room;
}

std::uint64_t largest_body(const run_plan& plan, std::uint32_t hosts) {
  const bool keeps = !plan.options.checkpoints.folder.empty();
  const bool resumes = plan.resumed.has_value();
  std::uint64_t largest = std::max(
      (2 + std::uint64_t{plan.devices_per_worker()}) * largest_shard(*plan.layout), batch_bytes(plan));
  if (keeps || resumes) largest = std::max(largest, worker_state(plan));
  if (hosts > 0) {
    const std::uint64_t shards_of_one = (plan.options.shards + hosts - 1) / hosts;
    const std::uint64_t terms_of_one = largest_shard(*plan.layout) + (resumes ? shard_state(plan) : 0);
    largest = std::max(largest, shards_of_one * terms_of_one);
    if (keeps) largest = std::max(largest, shard_state(plan));
  }
  return largest + room;
}

} // namespace mailgrad
