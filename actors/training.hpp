#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/account/run_trace.hpp>
#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/account/training_progress.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/training_options.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/parameter_layout.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
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
///         std::system_error (no file to record into). A run that goes wrong later ends with a report that
///         says so, never with an exception.
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

  /// Runs on under another policy as soon as every worker has finished its step; the report says when that
  /// was.
  ///
  /// Errors  std::invalid_argument as make_policy() has it, for one that the cure excludes, for hogwild
  ///         unless it is among the policies of the run, in a run of hogwild alone, which has no shards to
  ///         switch, in a replay, which switches as recorded, and for a parameter actor of one's own that
  ///         switches nothing.
  void switch_policy(const std::string& policy, const std::string& why);

  /// Waits until the run ends, at most so long; true if it has ended.
  bool wait_for(std::chrono::milliseconds span);

  training_progress progress() const;
  /// Mini-batches of the whole run, by all workers.
  std::uint64_t total_steps() const noexcept;

  /// Each wait the actors know of, in words, as far as they answer within `span`.
  std::vector<std::string> name_waits(std::chrono::milliseconds span);

  /// Waits for the end, measures accuracy or error on the test set, and says what the run did. Completes the
  /// recording. `stop_test` is asked again and again during the test; true ends that, and the accuracy is not
  /// known. A test that throws leaves its words in the report, whose run has then failed.
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
