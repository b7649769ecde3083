#pragma once

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/engine/plan/terms.hpp>
#include <mailgrad/engine/shard/gpu_block.hpp>
#include <mailgrad/engine/worker/gpu_replica.hpp>
#include <mailgrad/net/all_reduce.hpp>

namespace mailgrad {

/// Whom a worker talks to. A handle may be an actor of this process, or one that stands in for an actor of
/// another.
struct worker_peers {
  std::vector<caf::actor> shards; ///< empty if the whole run is hogwild
  caf::actor feeder;
  caf::actor tracker;
  caf::actor coordinator;
};

/// How workers share one block under hogwild.
struct shared_block {
  std::shared_ptr<hogwild_store> store;
  std::shared_ptr<gpu_block> on_gpu{}; ///< the block, if that is on the GPU of all workers
  optimizer_options rule;
  bool from_start = false; ///< the first policy is hogwild
};

/// What a worker of this process needs besides its terms.
struct worker_surroundings {
  model_function model;
  worker_peers peers;
  std::shared_ptr<const time_source> time;
  instant created{0};                       ///< where its timeline begins
  bool tells_timeline = false;              ///< to the coordinator, which is in another process
  notice_pace pace{};                       ///< how often it tells the tracker of its steps
  std::optional<shared_block> shared{};     ///< none if hogwild is not among the policies of the run
  block_source blocks{};                    ///< where its gradients lie; null: in its process
  std::shared_ptr<const dataset> samples{}; ///< those of the run; null: the feeder sends batches
  /// Adds its gradients up with those of all other workers; null: they do not.
  std::shared_ptr<net::all_reduce> sums{};
  std::vector<weight_place> weights{}; ///< by shard, if it computes on a GPU; empty: all on the host
  std::uint64_t run_ahead = 1;         ///< steps that it begins before the one under way has ended, if it can
  std::shared_ptr<event_watch> watch{}; ///< tells when the steps on a GPU end; null: that of the process
  /// Of the batches that will come, for each of which a worker on a GPU takes its memory before it begins;
  /// empty: when the first of a size comes.
  std::vector<std::size_t> batch_sizes{};
  bool ends_with_gpu = false; ///< the worker is lost with the GPU it computes on
  /// Gives the runner that the worker uses instead of `own`, the one of its terms.
  std::function<std::shared_ptr<step_runner>(rank worker, std::shared_ptr<step_runner> own)> runner{};
};

struct spawned_worker {
  caf::actor device;
  std::vector<caf::actor> stages; ///< of a worker that spans several devices; else none
};

/// A worker whose memory is taken, and which does not train yet.
struct prepared_worker {
  std::function<caf::actor()> begin; ///< spawns its device actor; to be called once
  std::vector<caf::actor> stages;    ///< as in spawned_worker; they wait for work
};

/// Takes what a worker needs, and spawns the stages of one that spans several devices.
///
/// Errors  graph_error, std::system_error: a replica that cannot be built.
prepared_worker prepare_worker(caf::actor_system& system, const worker_terms& terms,
                               worker_surroundings with);

/// Prepares a worker, and spawns its device actor.
///
/// Errors  those of prepare_worker().
spawned_worker spawn_worker(caf::actor_system& system, const worker_terms& terms, worker_surroundings with);

} // namespace mailgrad
