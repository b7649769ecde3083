#pragma once

#include <mailgrad/data/open.hpp>
#include <mailgrad/engine/plan/known_plugins.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/worker/local_steps.hpp>
#include <mailgrad/files/archive.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/identity.hpp>
#include <mailgrad/tensor/small_floats.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// Where the shards lie that are not with the coordinator.
struct shard_place {
  std::string address;               ///< of their process
  std::vector<std::uint32_t> shards; ///< in rising order

  void keep(archive& a) {
    a.field("address", address);
    a.field("shards", shards);
  }
};

/// What a worker must know of its run, besides the code of its model: values that can be written as bytes.
struct worker_terms {
  run_id run{};
  rank worker{};
  incarnation_number incarnation{};
  bool late = false; ///< it joins a run in progress, and waits for its slot
  /// What its graphs are built for. The devices are those of the worker, in their order.
  model_request request{};
  std::shared_ptr<const parameter_layout> layout{};         ///< where the weights lie in the shards
  std::shared_ptr<const parameter_layout> replica_layout{}; ///< where those lie that it computes with
  std::optional<local_steps_options> local{};               ///< if it takes steps of its own
  double clip_norm = 0;                                     ///< the largest norm of a gradient; 0: no limit
  std::uint64_t sample_gap = 0;                             ///< it compares one of so many gradients; 0: none
  std::size_t micro_batches = 1;                            ///< of a worker that spans several devices
  bool sums_apart = false;                                  ///< the shards add up what its devices compute
  bool keeps_end = false;                  ///< it asks for the checkpoint of the end before it ends
  std::size_t trace_events = 0;            ///< the most events of its timeline; 0: none
  std::shared_ptr<saved_fields> resumed{}; ///< its part of a checkpoint to go on from; or null
  product_precision products = product_precision::float32; ///< on its GPUs
  std::string wire = "float32";                            ///< how its gradients travel
  std::vector<shard_place> shard_hosts{};                  ///< empty: all shards are with the coordinator
  bool all_reduce = false; ///< it adds its gradients up with those of the other workers
  data_terms data{};       ///< for a worker of another process; else empty

  /// Writes or reads all of it.
  /// Errors  those of keep_optimizer(); archive_error if what is read makes no sense; std::invalid_argument
  ///         for a precision that is none.
  void keep(archive& a);
};

/// The terms of one incarnation of a worker. One that joins late begins anew, even in a run that is resumed.
worker_terms terms_of(const run_plan& plan, rank worker, incarnation_number incarnation = {},
                      bool late = false);

/// The terms of a worker in another process, which has no code of the model, and its graphs, one for each
/// size that a batch of the run can have, or a micro-batch of a worker that spans several devices.
/// Errors  those of worker_terms::keep() and graph_for().
std::string write_terms(const run_plan& plan, const worker_terms& terms);

/// The terms, with the model that the graphs make. The bytes come from a server, which may be broken: they
/// are checked like those of any file.
struct given_terms {
  worker_terms terms;
  model_function model;
};

/// Errors  archive_error in one line; std::invalid_argument as model_of(), and if a worker that takes steps
///         of its own would need an update rule that `plugins` lacks.
given_terms read_terms(std::string_view bytes, operation_registry known = {},
                       const known_plugins& plugins = {});

} // namespace mailgrad
