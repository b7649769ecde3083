#pragma once

#include <mailgrad/engine/plan/known_plugins.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/files/archive.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/identity.hpp>
#include <mailgrad/optim/optimizer_options.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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
  /// Errors  those of keep_optimizer(); archive_error if what is read makes no sense. The policy and the cure
  ///         that are read are not looked at, since the user's own may be among them.
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
/// Errors  archive_error in one line, also if no shard is among them, or if they are not of one run;
///         std::invalid_argument if `plugins` lacks one of the run.
std::vector<shard_terms> read_shard_terms(std::string_view bytes, const known_plugins& plugins = {});

} // namespace mailgrad
