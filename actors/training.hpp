#pragma once

#include <mailgrad/actors/remote/serve_options.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/account/run_trace.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/account/training_progress.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/engine/weights/weights_file.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/parameter_layout.hpp>

#include <optional>
#include <span>
#include <vector>

namespace mailgrad {

/// A training run in progress: its actors live on threads of their own, one for each device.
///
/// Each worker builds a graph of its own, which may differ (model_request::worker): variables of one name are
/// the same weights, and a worker changes only what its loss depends on. The accuracy at the end is that of
/// worker 0's graph.
/// Errors  the constructor: std::invalid_argument (an option, no model, no data, test samples unlike the
///         others), device_error (a device that is not there), graph_error (a model that does not fit the
///         data), recording_error (a recording of another run, or of one that cannot be repeated),
///         archive_error (a checkpoint that lacks something), file_error (no folder for checkpoints),
///         std::system_error (no file for the recording, the metrics or TensorBoard). A run that goes wrong
///         later ends with a report that says so, never with an exception.
/// Threads wait_for, progress, report_so_far, observe, stop, take_checkpoint, checkpoints, recorded,
///         switch_policy, list_wait_reasons and members: any; the rest: the owner's.
class training {
public:
  training(model_function model, shared_data data, training_options options,
           std::shared_ptr<const time_source> time = std::make_shared<machine_time>());
  /// A run whose workers are other processes, which join it (remote/membership.hpp). It returns when as many
  /// have joined as `serve` says. The devices of the options are not used: each worker brings its own, as
  /// many as `serve` says.
  ///
  /// Errors  as above, and those of remote::worker_server; std::runtime_error if the owner gives up waiting,
  ///         or its patience ends; remote::called_off if a watcher stops it before all have joined.
  training(model_function model, shared_data data, training_options options, remote::serve_options serve,
           std::shared_ptr<const time_source> time = std::make_shared<machine_time>());
  /// Stops the run if it has not ended.
  ~training();
  training(const training&) = delete;
  training& operator=(const training&) = delete;

  /// Ends the run: steps that have begun are finished, and their gradients are taken.
  void stop(const std::string& why);

  /// No worker will join any more, so the run does not wait for one (training_options::waits_for_workers).
  void expect_nobody();

  /// Switches to another policy as soon as every worker has finished its step. The report tells the step.
  ///
  /// Errors  std::invalid_argument as make_policy(), and for a policy that the cure excludes; for hogwild, if
  ///         it is not among the policies of the run; in a run of hogwild alone, which has no shards; in a
  ///         replay, which switches as recorded; with a parameter actor of the user's that cannot switch;
  ///         after the end of the run.
  void switch_policy(const std::string& policy, const std::string& why);

  /// Takes a checkpoint as soon as possible. stop() takes one as well.
  ///
  /// Errors  std::invalid_argument: the run has no folder for checkpoints.
  void take_checkpoint();
  /// What became of the checkpoints so far.
  checkpoint_account checkpoints() const;
  /// What became of the recording so far; none if the run is not recorded.
  std::optional<recording_account> recorded() const;

  /// Waits until the run ends, but at most for `span`; true if it has ended.
  bool wait_for(std::chrono::milliseconds span);

  training_progress progress() const;
  /// The report of this moment; `ended` is "running". Every actor is asked for a copy of its books, and
  /// nobody waits for anybody: an actor that has not answered within `span`, since its step takes longer,
  /// counts with its copy before. What nobody has told yet is absent. Copies are of different moments, so of
  /// the ledger only produced = applied + merged + discarded + lost + under way is true. The stages of
  /// workers, the test and the hash of the weights come with report(). After the end, the report of the end
  /// without these.
  training_report report_so_far(std::chrono::milliseconds span) const;
  /// The number of mini-batches of the whole run, over all workers.
  std::uint64_t total_steps() const noexcept;

  /// Calls `observer` for each event of the run from now on: a line of metrics each
  /// training_options::metrics_every and one at the end, with the gaps of its gradients, each test of the
  /// weights, each switch of policy that is done, each checkpoint that is written or has failed, each wait
  /// that list_wait_reasons() asks for, and each process that comes into the run or goes. The calls come one
  /// after the other, on one thread that is not the caller's, and no actor waits for them, so an observer may
  /// take its time. It may call what any thread may: stop(), take_checkpoint(), and until the end
  /// switch_policy(). It must not destroy the run. One that throws is called no more, and metrics_failure()
  /// says why. The last line comes during report(), which waits for the observers.
  void observe(std::function<void(const run_event&)> observer);

  /// What the actors wait for, in words: each wait that an actor names within `span`.
  std::vector<std::string> list_wait_reasons(std::chrono::milliseconds span);

  /// Who is in a run over processes, and who was: workers and parameter hosts. None in a run of one process.
  /// When each was heard last is asked for, within `span`.
  std::vector<run_member> members(std::chrono::milliseconds span) const;

  /// Waits for the end, measures accuracy or error on the test set, completes the recording and reports the
  /// run. `stop_test` is called repeatedly during the test; if it returns true, the test ends and the
  /// accuracy stays unknown. If the test throws, the run has failed, and the report has the text of the
  /// exception.
  training_report report(const std::function<bool()>& stop_test = {});
  /// The same in the words of who only waits: `serve(...).wait()`.
  training_report wait() { return report(); }

  /// Why the recording could not be written; empty if it was written or not asked for. Known after report().
  std::string recording_failure() const;
  /// Why the lines of metrics or the events of TensorBoard are not whole, what an observer threw, or why the
  /// best weights are not beside the checkpoints; empty if nothing went wrong. Known after report().
  std::string metrics_failure() const;
  /// What is worth saying of a run that goes on from a checkpoint, a line each: what it lacks, and what was
  /// set aside, which lay in its folder and came after that checkpoint.
  const std::vector<std::string>& remarks() const noexcept;
  /// Waits for the end. Returns the timeline of the run, without tracks if none was asked for.
  run_trace trace();

  /// Waits for the end. Returns the weights, float32[layout().size()]; empty if a shard was lost. They are
  /// the last ones or the best ones, as training_options::keep says; the last ones may be tested for that.
  std::span<const float> parameters();
  const parameter_layout& layout() const noexcept;
  /// Waits for the end. Returns the weights by the names of their variables, for save_weights(); none if a
  /// shard was lost. They live as long as this run.
  std::vector<named_weights> weights();

  /// Waits for the end. Applies the trained model to each of these samples, on the calling thread. The result
  /// is the logits of each, or the numbers that the model predicts.
  ///
  /// Shapes  samples: the inputs of the data it was trained on; the result: float32[samples, classes], or
  ///         float32[samples, numbers of a target].
  /// Errors  std::invalid_argument for other inputs than those; std::runtime_error if weights were lost.
  std::vector<float> predict(const named_arrays& samples);

private:
  struct implementation;
  std::unique_ptr<implementation> self_;
};

/// Trains and reports; `observe` is called a few times a second on the calling thread.
///
///     train(mlp({128}), fashion_mnist(), {.devices = cpus(2), .policy = "async"});
training_report train(model_function model, shared_data data, training_options options = {},
                      const std::function<void(const training_progress&)>& observe = {});

/// A run whose workers join from other processes at this address: as many as the options say, or one. It
/// returns when they have come.
///
///     serve(mlp({128}), fashion_mnist(), {.workers = 2}, "10.0.0.1:7000").wait();
///
/// Errors  as the constructor of `training` with serve_options, which has more to choose.
training serve(model_function model, shared_data data, training_options options, const std::string& address);

} // namespace mailgrad
