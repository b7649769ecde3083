#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/account/run_trace.hpp>
#include <mailgrad/engine/account/training_progress.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/delays/delay_law.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/engine/worker/local_samples.hpp>
#include <mailgrad/engine/worker/step_runner.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/lab/links/worker_link.hpp>
#include <mailgrad/optim/identity.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace mailgrad::lab {

/// The options of a run whose workers are all simulated on this thread.
///
/// Errors  std::invalid_argument in one line, for an option that needs threads, files or GPUs.
training_options virtual_options(training_options asked, std::uint32_t workers);

/// A test of the weights in mid-run. It takes no virtual time, and makes no difference to the run.
struct virtual_test {
  instant time{0};
  std::uint64_t steps = 0;            ///< that workers have ended
  std::uint64_t updates = 0;          ///< versions of the weights, of the shard that made most
  std::optional<double> train_loss{}; ///< mean over the steps since the last test, if any was computed
  evaluation result{};                ///< on the samples held out for validation, or else those for testing
};

/// How long the steps of each worker take, where no text of a law says it.
struct named_delays {
  std::string name; ///< for the report
  std::function<std::unique_ptr<delay_law>(rank)> law_of;
};

/// What a run in virtual time needs beside the options of a training.
struct virtual_run_options {
  std::uint32_t workers = 1;
  /// Called now and then with what is done; may be empty.
  std::function<void(const training_progress&)> on_progress{};
  /// Asked now and then; true: the run ends when every worker has finished its step. May be empty.
  std::function<bool()> stop{};
  /// Called when a worker begins a step, with the weights that it has read, float32[layout().size()]. A run
  /// with several shards is refused then. May be empty.
  std::function<void(rank, instant, std::span<const float>)> on_read{};
  /// Whether worker r of M trains on the samples r, r + M, and so on alone, as local_sample_runner has it.
  bool local_samples = false;
  /// After how many steps of all workers the weights are tested, again and again; 0: at the end only. A test
  /// comes after the event that reaches such a number or passes it.
  std::uint64_t test_every = 0;
  /// Called with each such test. May be empty.
  std::function<void(const virtual_test&)> on_test{};
  /// In place of training_options::delays.
  std::optional<named_delays> delays{};
  /// How long gradients and weights are under way between a worker and each shard.
  link_formulas links{};
  /// How gradients travel there.
  wire_terms wire{};
  /// Whether gradients are computed that each shard is known to discard. It makes no difference to the
  /// weights and the ledger, but the losses of these steps are then known, and end the run if they are not
  /// finite.
  bool computes_discarded = false;
  /// Whether a worker is interrupted by the update that makes its gradient too stale (policy::most_stale):
  /// its step ends then, the gradient is discarded, and it begins the next step. Steps that are interrupted
  /// count as steps.
  bool interrupts = false;
};

/// A training in virtual time: the actors that train for real, on one thread, with a clock that jumps from
/// one event to the next. Gradients are computed for real; a step takes as long as a law says.
///
/// A gradient that its policy will discard as too stale (policy::most_stale) is not computed, and its loss is
/// not in the report. It is computed nevertheless on a lossy wire, which reads what it sends; for a model
/// with tables on links with a bandwidth, which count its rows; and if it becomes too stale only on a link.
///
/// Guarantees  the same options give the same weights, to the bit, and the same report.
/// Differs     from a run of `training`: updates take no time, nor do messages but on the links of the
///             options. Workers share one program.
/// Threads one.
class virtual_run {
public:
  /// `options.devices` and `options.workers` are ignored: each worker is simulated. Without options.delays,
  /// each step takes a second.
  ///
  /// Errors  std::invalid_argument: an option is wrong, or makes no sense in virtual time; those of
  ///         plan_run() and delay_spec.
  virtual_run(model_function model, std::shared_ptr<const data_split> data, training_options options,
              virtual_run_options lab);
  ~virtual_run();
  virtual_run(const virtual_run&) = delete;
  virtual_run& operator=(const virtual_run&) = delete;

  /// Plans such a run and spawns nothing. Returns its total_steps().
  ///
  /// Errors  as the constructor.
  static std::uint64_t plan(model_function model, std::shared_ptr<const data_split> data,
                            training_options options, const virtual_run_options& lab);

  /// Runs to the end, or goes on. Called once.
  void run();

  /// The report of a run that has ended; `wall_seconds` and all other times are virtual. As
  /// training::report(), it tests the weights; `stop_test` ends that early if it returns true.
  training_report report(const std::function<bool()>& stop_test = {});

  /// The timeline, if options.trace_events asked for one.
  run_trace trace();

  /// float32[n], after the end; empty if a shard was lost.
  std::span<const float> parameters();
  const parameter_layout& layout() const noexcept;
  /// Mini-batches of all workers together.
  std::uint64_t total_steps() const noexcept;
  /// Events so far: one for each step of a worker.
  std::uint64_t events() const noexcept;
  /// Gradients that were computed so far, to compare with others included.
  std::uint64_t computed() const noexcept;

private:
  class implementation;
  std::unique_ptr<implementation> self_;
};

} // namespace mailgrad::lab
