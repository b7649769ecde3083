#pragma once

#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/actors/scheduler/stepping_system.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/account/run_trace.hpp>
#include <mailgrad/engine/account/training_progress.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/delays/delay_spec.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/engine/worker/delayed_runner.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/lab/links/worker_link.hpp>
#include <mailgrad/lab/virtual_clock.hpp>
#include <mailgrad/optim/identity.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mailgrad::lab {

/// The options of a run whose workers are all simulated on this thread.
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
  std::function<void(const training_progress&)> on_progress{}; ///< called now and then; may be empty
  /// Asked now and then; true: the run ends when every worker has finished its step. May be empty.
  std::function<bool()> stop{};
  /// Called when a worker begins a step, with the weights that it has read, float32[layout().size()]. A
  /// run with several shards is refused then. May be empty.
  std::function<void(rank, instant, std::span<const float>)> on_read{};
  /// Whether worker r of M trains on the samples r, r + M, and so on alone, as local_sample_runner has it.
  bool local_samples = false;
  /// After how many steps of all workers the weights are tested, again and again; 0: at the end only. A test
  /// comes after the event that reaches such a number or passes it.
  std::uint64_t test_every = 0;
  std::function<void(const virtual_test&)> on_test{}; ///< called with each such test; may be empty
  std::optional<named_delays> delays{};               ///< in place of training_options::delays
  link_formulas links{}; ///< how long gradients and weights are under way between a worker and each shard
  wire_terms wire{};     ///< how gradients travel there
  /// Whether gradients are computed that each shard is known to discard. Weights and ledger are the same, but
  /// the losses of these steps are then known, and end the run if they are not finite.
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
  /// Errors  std::invalid_argument: an option is wrong, or makes no sense in virtual time; those of
  ///         plan_run() and delay_spec.
  virtual_run(model_function model, std::shared_ptr<const data_split> data, training_options options,
              virtual_run_options lab);
  ~virtual_run();
  virtual_run(const virtual_run&) = delete;
  virtual_run& operator=(const virtual_run&) = delete;

  /// Plans such a run and spawns nothing. Returns its total_steps().
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
  const parameter_layout& layout() const noexcept { return *plan_.layout; }
  /// Mini-batches of all workers together.
  std::uint64_t total_steps() const noexcept { return plan_.steps; }
  /// Events so far: one for each step of a worker.
  std::uint64_t events() const noexcept { return events_ - (late_ ? late_->passed() : 0); }
  /// Gradients that were computed so far, to compare with others included.
  std::uint64_t computed() const noexcept { return computed_; }

private:
  bool may_skip() const;
  std::uint64_t steps() const noexcept { return events() - passed_; }
  std::shared_ptr<step_timer> timer_of(rank worker);
  void interrupt_late_steps();
  std::uint64_t version_now();
  run_crew_options crew_options();
  caf::actor link_to(rank worker, std::uint32_t s, const caf::actor& shard);
  std::shared_ptr<step_runner> runner_of(rank worker, std::shared_ptr<step_runner> own);
  void fetch_ahead(rank worker, virtual_clock::foresight before) const;
  void stop_if_asked();
  bool tests() const;
  void test_if_due();
  void read_weights();
  void take_weights(const shard_read& x);
  const run_outcome& ended() const;

  const virtual_run_options lab_;
  const run_plan plan_;
  const delay_spec delays_;
  const std::shared_ptr<virtual_clock> clock_ = std::make_shared<virtual_clock>();
  const std::shared_ptr<const dataset> samples_{plan_.data, &plan_.data->train};
  std::shared_ptr<step_runner> shared_; ///< computes the steps of all workers
  std::optional<run_outcome> outcome_;
  instant ended_at_{0};
  std::vector<float> parameters_;
  std::uint64_t events_ = 0;
  std::uint64_t computed_ = 0;     ///< gradients
  std::uint64_t tested_after_ = 0; ///< steps
  std::uint64_t asked_after_ = 0;  ///< events, whether to stop
  /// Tells shards when windows are over, and links when messages arrive: events that end no step.
  const std::shared_ptr<step_timer> beside_steps_;
  std::uint64_t passed_ = 0;                          ///< events of this timer
  std::vector<std::shared_ptr<gradient_wire>> wires_; ///< by worker
  std::vector<caf::actor> links_;
  std::vector<std::shared_ptr<const simulated_runner>> simulated_; ///< by rank, the last of each
  std::optional<late_steps> late_;                                 ///< none unless workers are interrupted
  std::uint64_t version_ = 0; ///< of the weights, while workers are interrupted
  bool stopping_ = false;
  running_stat losses_;     ///< since the last test
  std::vector<float> read_; ///< the weights that are tested
  std::uint64_t read_updates_ = 0;
  stepping_system system_; ///< its actors use the members above
  std::optional<run_crew> crew_;
  caf::actor reader_;   ///< null if nobody tests
  caf::actor versions_; ///< null unless workers are interrupted
};

} // namespace mailgrad::lab
