#pragma once

#include <mailgrad/actors/recording.hpp>
#include <mailgrad/actors/run_trace.hpp>
#include <mailgrad/actors/text_sample.hpp>
#include <mailgrad/actors/time_source.hpp>
#include <mailgrad/actors/training_progress.hpp>
#include <mailgrad/actors/training_report.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/tensor/device.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mailgrad {

struct own_parameter_actor;

/// What to do with a model and its data.
struct training_options {
  std::vector<device> devices{
      {device_kind::cpu, 0}}; ///< one worker each; a device named twice runs two in turns
  /// 0: as many as devices. Fewer: the devices are shared out, the first ones to the first worker, and each worker's
  /// model spans its own, as scopes, replicate() or pipelined() place it.
  std::uint32_t workers = 0;
  std::size_t micro_batches =
      1; ///< of the batch of a worker that spans devices, so that all of them have work
  /// Or several, each but the first with its step: "async, sync@1000"; or "auto".
  std::string policy = "async";
  std::string cure = "none";     ///< of staleness, as make_cure() reads it
  optimizer_options optimizer;   ///< plain SGD unless told otherwise
  std::uint64_t local_steps = 0; ///< of a worker between two exchanges; 0: each gradient goes to the shards
  /// Of the shards, with local steps. SGD of learning rate 1 averages models.
  optimizer_options outer{.learning_rate = 1};
  std::size_t batch = 64;       ///< samples in a mini-batch of one worker
  std::uint64_t epochs = 1;     ///< passes over the training set, by all workers together
  std::uint64_t steps = 0;      ///< mini-batches, by all workers together; 0: as the epochs have it
  std::uint32_t shards = 1;     ///< parameter actors; hogwild has none
  std::uint64_t seed = 1;       ///< of initial weights, order of samples and dropout
  std::uint64_t sample_gap = 0; ///< steps of a worker for each gradient compared with a fresh one; 0: none is
  text_sample_options text{};   ///< where the data are a text: what the trained model writes at the end
  std::size_t trace_events = 0; ///< room for the timeline of each actor; 0: none is recorded
  std::string record{}; ///< file for the order in which shards take gradients; empty: none, as in a replay
  std::vector<std::string> words{};          ///< of the command line, for whoever reads the recording
  std::shared_ptr<const recording> replay{}; ///< the run to repeat; all but the devices must be as in it
  /// One of your own for every shard, as own_parameter_actor.hpp makes it; none: ours.
  std::shared_ptr<const own_parameter_actor> parameter_actor{};
};

/// A training run in progress: its actors live on threads of their own, one for each device.
///
/// Each worker builds a graph of its own, which may differ (model_request::worker): variables of one name are the same
/// weights, and a worker changes only what its loss depends on. The accuracy at the end is that of worker 0's graph.
/// Errors  the constructor: std::invalid_argument (an option, no model, no data, test samples unlike the others),
///         device_error (a device that is not there), graph_error (a model that does not fit the data),
///         recording_error (a recording of another run, or of one that cannot be repeated), std::system_error (no
///         file to record into). A run that goes wrong later ends with a report that says so, never with an
///         exception.
/// Threads wait_for, progress, stop, switch_policy and name_waits: any; the rest: the owner's.
class training {
public:
  training(model_function model, std::shared_ptr<const data_split> data, training_options options,
           std::shared_ptr<const time_source> time = std::make_shared<machine_time>());
  /// Stops the run if it has not ended.
  ~training();
  training(const training&) = delete;
  training& operator=(const training&) = delete;

  /// Ends the run in good order: steps that have begun are finished and their gradients taken.
  void stop(const std::string& why);

  /// Runs on under another policy as soon as every worker has finished its step; the report says when that was.
  ///
  /// Errors  std::invalid_argument as make_policy() has it, for one that the cure excludes, for hogwild unless it is among the
  ///         policies of the run, in a run of hogwild alone, which has no shards to switch, in a replay,
  ///         which switches as recorded, and for a parameter actor of one's own that switches nothing.
  void switch_policy(const std::string& policy, const std::string& why);

  /// Waits until the run ends, at most so long; true if it has ended.
  bool wait_for(std::chrono::milliseconds span);

  training_progress progress() const;
  /// Mini-batches of the whole run, by all workers.
  std::uint64_t total_steps() const noexcept;

  /// Each wait the actors know of, in words, as far as they answer within `span`.
  std::vector<std::string> name_waits(std::chrono::milliseconds span);

  /// Waits for the end, measures accuracy or error on the test set, and says what the run did. Completes the recording.
  /// `stop_test` is asked again and again during the test; true ends that, and the accuracy is not known. A test
  /// that throws leaves its words in the report, whose run has then failed.
  training_report report(const std::function<bool()>& stop_test = {});

  /// Why the recording could not be written; empty if it is, or none was asked for. Known after report().
  std::string recording_failure() const;
  /// Waits for the end. The timeline of the run; without tracks if none was recorded.
  run_trace trace();

  /// The weights, float32[layout().size()], after the end; empty if a shard was lost, and its part with it.
  std::span<const float> parameters();
  const parameter_layout& layout() const noexcept;

private:
  class implementation;
  std::unique_ptr<implementation> self_;
};

/// Trains and reports; `observe` is called a few times a second on the calling thread.
training_report train(model_function model, std::shared_ptr<const data_split> data, training_options options,
                      const std::function<void(const training_progress&)>& observe = {});

} // namespace mailgrad
