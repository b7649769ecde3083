#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/account/trace_track.hpp>
#include <mailgrad/engine/account/training_progress.hpp>
#include <mailgrad/engine/plan/shard_terms.hpp>
#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/engine/shard/card_block.hpp>
#include <mailgrad/engine/worker/mark_watch.hpp>
#include <mailgrad/engine/worker/step_timer.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace mailgrad {

/// What the actor of a shard needs besides its terms. A handle may be an actor of this process, or one that
/// stands in for an actor of another.
struct shard_surroundings {
  caf::actor tracker;
  caf::actor recorder{}; ///< null if the run is not recorded
  std::shared_ptr<const time_source> time;
  std::vector<caf::actor> followers{};         ///< of the first shard: all others
  std::vector<caf::actor> helpers{};           ///< help with an update while every worker waits for it
  std::shared_ptr<hogwild_store> store{};      ///< if hogwild is among the policies of the run
  std::shared_ptr<card_block> on_card{};       ///< as in parameter_actor_options
  std::shared_ptr<const recording> replayed{}; ///< the run to repeat
  std::shared_ptr<trace_track> trace{};        ///< its timeline; null: none
  notice_pace pace{};                          ///< how often it tells the tracker of gradients
  caf::actor tells_trace_to{};                 ///< as in parameter_actor_options
  block_source blocks{};                       ///< where its weights lie; null: in its process
  std::optional<device> card{};                ///< on which they lie instead
  std::shared_ptr<mark_watch> watch{};         ///< of that card; null: that of the process
  std::vector<bool> elsewhere{};               ///< as in parameter_actor_options
  std::shared_ptr<step_timer> timer{};         ///< likewise
  std::function<std::vector<wait_named>()> waits_here{};             ///< likewise
  std::function<void(std::optional<rank>, version_number)> awaits{}; ///< likewise
};

/// Spawns the parameter actor of a shard: Mailgrad's, or one of the kind `own`.
///
/// Errors  std::invalid_argument: a kind that cannot be spawned.
caf::actor spawn_shard(caf::actor_system& system, shard_terms terms, shard_surroundings with,
                       const parameter_actor_kind* own = nullptr);

/// Errors  std::invalid_argument: a kind that cannot be spawned.
void require_spawnable(const parameter_actor_kind& kind);

} // namespace mailgrad
