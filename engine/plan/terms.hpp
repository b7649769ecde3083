#pragma once

#include <mailgrad/data/open.hpp>
#include <mailgrad/engine/plan/known_plugins.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/worker/local_steps.hpp>
#include <mailgrad/graph/operation_registry.hpp>

namespace mailgrad {

/// Writes or reads where the weights of a run lie, without their first values.
/// Errors  archive_error for a layout that cannot be.
void keep_layout(archive& a, std::string_view name, std::shared_ptr<const parameter_layout>& layout);

/// Writes or reads an update rule with all its settings, so that another process can make the same steps. Of
/// a rule of the user's own its name and the SHA-256 of its plug-in are written, and what is read has no
/// table: known_plugins::complete() gives it that of this process.
/// Errors  std::invalid_argument for a rule of the user's own that has no table; std::system_error if its
///         plug-in cannot be read; archive_error for a rule that there is not, or a setting out of its range.
void keep_optimizer(archive& a, std::string_view name, optimizer_options& o);

/// What the actor of a shard must know of its run: values that can be written as bytes.
struct shard_terms {
  run_id run{};
  shard_index shard{};
  std::shared_ptr<const parameter_layout> layout{};
  std::vector<float> values{};  ///< version 0, float32[range of the shard]
  optimizer_options rule{};     ///< that makes each version from the one before
  std::string policy = "async"; ///< the first one
  std::string cure = "none";
  std::vector<named_plugin> plugins{}; ///< with policies of the run, and its cure
  std::string parameter_actor{};       ///< one of the user's own; empty: Mailgrad's
  std::uint32_t workers = 1;           ///< with which the run begins
  std::uint32_t slots = 1;             ///< the most that may take part
  std::uint32_t devices = 1;           ///< of each worker
  std::string wire = "float32";        ///< how gradients travel
  bool records = false;                ///< it tells the recorder what it judges
  std::size_t trace_events = 0;        ///< the most events of its timeline; 0: none
  /// Whether checkpoints keep the last answer to each worker, because it cannot begin from newer weights.
  bool keep_answers = false;
  std::shared_ptr<saved_fields> resumed{}; ///< its part of a checkpoint to go on from; or null
  bool same_workers = true;                ///< as when that was taken
  std::vector<bool> counted{};             ///< by rank: that has all that the worker did
  std::vector<step_number> steps{};        ///< by rank: the last step that the worker itself has there

  /// Writes or reads all of it.
  /// Errors  those of keep_optimizer(); archive_error. Policy and cure that are read are not looked at.
  void keep(archive& a);
};

/// The terms of one shard of a run. `with` says what the plan does not know.
struct shard_duties {
  bool records = false;
  bool keeps_checkpoints = false;
  std::string wire = "float32";
};
shard_terms terms_of(const run_plan& plan, shard_index shard, shard_duties with);

/// The terms of the shards of one process.
/// Errors  those of shard_terms::keep().
std::string write_terms(std::vector<shard_terms> terms);

/// The bytes come from a server, which may be broken: they are checked like those of any file.
/// Errors  archive_error, also for no shard or several runs; std::invalid_argument if `plugins` lacks one.
std::vector<shard_terms> read_shard_terms(std::string_view bytes, const known_plugins& plugins = {});

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
  /// Errors  those of keep_optimizer(); archive_error, std::invalid_argument if what is read makes no sense.
  void keep(archive& a);
};

/// The terms of one incarnation of a worker. One that joins late begins anew, even in a run that is resumed.
worker_terms terms_of(const run_plan& plan, rank worker, incarnation_number incarnation = {},
                      bool late = false);

/// The terms of a worker in another process, and its graphs, one for each size of batch or micro-batch.
/// Errors  those of worker_terms::keep() and graph_for().
std::string write_terms(const run_plan& plan, const worker_terms& terms);

/// The terms, with the model that the graphs make. The bytes are checked like those of any file.
struct given_terms {
  worker_terms terms;
  model_function model;
};

/// Errors  archive_error; std::invalid_argument as model_of(), and if `plugins` lacks the local rule.
given_terms read_terms(std::string_view bytes, operation_registry known = {},
                       const known_plugins& plugins = {});

} // namespace mailgrad
