#pragma once

#include <mailgrad/actors/shard/parameter_actor.hpp>
#include <mailgrad/engine/plan/shard_terms.hpp>
#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/device.hpp>

namespace mailgrad {

/// Where the weights of a shard lie.
struct shard_memory {
  block_source blocks{};       ///< null: in its process
  std::optional<device> gpu{}; ///< on which they lie instead
};

/// Spawns the parameter actor of a shard: Mailgrad's, or one of the kind `own`. `with` are the other actors,
/// and what is made here; what the terms say is added. A handle may be an actor of this process, or one that
/// stands in for an actor of another.
///
/// Errors  std::invalid_argument: a kind that cannot be spawned.
caf::actor spawn_shard(caf::actor_system& system, shard_terms terms, parameter_actor_options with,
                       shard_memory at, const parameter_actor_kind* own = nullptr);

/// Errors  std::invalid_argument: a kind that cannot be spawned.
void require_spawnable(const parameter_actor_kind& kind);

} // namespace mailgrad
