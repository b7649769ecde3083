#include <mailgrad/actors/shard/spawn_shard.hpp>

#include <mailgrad/actors/shard/custom_parameter_actor.hpp>
#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/kernels/cuda/card_lane.hpp>

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace mailgrad {

namespace {

const custom_parameter_actor_kind& own_kind(const parameter_actor_kind& chosen) {
  const auto* own = dynamic_cast<const custom_parameter_actor_kind*>(&chosen);
  if (!own)
    throw std::invalid_argument(fmt::format(
        "parameter actor '{}': make_custom_parameter_actor() makes one that can be spawned", chosen.name));
  return *own;
}

std::shared_ptr<lane> lane_of(shard_surroundings& with) {
  // Every worker waits for an update, which takes less time than a step.
  if (with.card)
    return std::make_shared<cuda::card_lane>(with.card->index, product_precision::float32,
                                             cuda::runtime::urgency::first);
  return std::make_shared<host_lane>(std::move(with.blocks));
}

} // namespace

void require_spawnable(const parameter_actor_kind& kind) { own_kind(kind); }

caf::actor spawn_shard(caf::actor_system& system, shard_terms terms, shard_surroundings with,
                       const parameter_actor_kind* own) {
  parameter_actor_options duties{
      std::make_shared<shard>(*terms.layout, terms.shard.value, terms.values, terms.rule, lane_of(with)),
      policy_spec(terms.policy, terms.seats),
      terms.workers,
      std::move(with.tracker),
      std::move(with.time),
      std::move(with.followers),
      cure_spec(terms.cure, terms.seats),
      std::move(with.recorder),
      std::move(with.replayed)};
  duties.run = terms.run;
  duties.store = std::move(with.store);
  duties.on_card = std::move(with.on_card);
  duties.trace = std::move(with.trace);
  duties.tells_trace_to = std::move(with.tells_trace_to);
  duties.helpers = std::move(with.helpers);
  duties.seats = terms.seats;
  duties.layout = std::move(terms.layout);
  duties.pace = with.pace;
  duties.watch = std::move(with.watch);
  duties.elsewhere = std::move(with.elsewhere);
  duties.timer = std::move(with.timer);
  duties.waits_here = std::move(with.waits_here);
  duties.awaits = std::move(with.awaits);
  duties.keep_answers = terms.keep_answers;
  duties.resumed = std::move(terms.resumed);
  duties.same_workers = terms.same_workers;
  duties.counted = std::move(terms.counted);
  duties.steps = std::move(terms.steps);
  if (own) return own_kind(*own).spawn(system, std::move(duties));
  return messaging::spawn<parameter_actor>(system, std::move(duties));
}

} // namespace mailgrad
