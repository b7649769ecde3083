#include <mailgrad/actors/shard/spawn_shard.hpp>

#include <mailgrad/actors/shard/custom_parameter_actor.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>

namespace mailgrad {

namespace {

const custom_parameter_actor_kind& own_kind(const parameter_actor_kind& chosen) {
  const auto* own = dynamic_cast<const custom_parameter_actor_kind*>(&chosen);
  if (!own)
    throw std::invalid_argument(fmt::format(
        "parameter actor '{}': make_custom_parameter_actor() makes one that can be spawned", chosen.name));
  return *own;
}

std::shared_ptr<device_queue> queue_of(shard_memory at) {
  // Every worker waits for an update, which takes less time than a step.
  if (at.gpu)
    return std::make_shared<cuda::gpu_queue>(at.gpu->index, product_precision::float32,
                                             cuda::runtime::urgency::first);
  return std::make_shared<host_queue>(std::move(at.blocks));
}

} // namespace

void require_spawnable(const parameter_actor_kind& kind) { own_kind(kind); }

caf::actor spawn_shard(caf::actor_system& system, shard_terms terms, parameter_actor_options with,
                       shard_memory at, const parameter_actor_kind* own) {
  with.weights = std::make_shared<shard>(*terms.layout, terms.shard.value, terms.values, terms.rule,
                                         queue_of(std::move(at)));
  with.policy = policy_spec(terms.policy, terms.slots);
  with.cure = cure_spec(terms.cure, terms.slots);
  with.workers = terms.workers;
  with.run = terms.run;
  with.slots = terms.slots;
  with.layout = std::move(terms.layout);
  with.keep_answers = terms.keep_answers;
  with.resumed = std::move(terms.resumed);
  with.same_workers = terms.same_workers;
  with.counted = std::move(terms.counted);
  with.steps = std::move(terms.steps);
  if (own) return own_kind(*own).spawn(system, std::move(with));
  return messaging::spawn<parameter_actor>(system, std::move(with));
}

} // namespace mailgrad
