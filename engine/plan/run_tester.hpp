#pragma once

#include <mailgrad/engine/plan/run_plan.hpp>

namespace mailgrad {

/// The first weight that is not finite, if there is one: "weight 12 of 'hidden.weights' on shard 0 is nan".
/// Shapes  weights: float32[layout.size()].
/// Errors  shape_error if there are more or fewer.
std::optional<std::string> format_not_finite(const parameter_layout& layout, std::span<const float> weights);

/// The GPU on which the weights of a run are tested: the first with weights, or else of its devices.
std::optional<device> gpu_for_tests(const training_options& o);

/// Tests the weights of a run on a GPU, and from the first failure there on the host.
/// Threads one caller at a time. On a GPU a test waits, so an actor that tests has a thread of its own.
class run_tester {
public:
  /// `gpu` none: on the host.
  run_tester(model_function build, model_request request, std::shared_ptr<const parameter_layout> layout,
             std::optional<device> gpu);
  const std::optional<device>& gpu() const noexcept { return gpu_; }
  const std::string& why_on_host() const noexcept { return why_on_host_; }
  /// Calls `test` with the model. Returns false if a GPU has failed, and then the caller tests again.
  /// Errors  what `test` throws, but for the failures of a GPU.
  bool try_with_model(const std::function<void(tested_model&)>& test);
  /// Calls `test` with the model, and once more if a GPU has failed.
  /// Errors  as above.
  void with_model(const std::function<void(tested_model&)>& test);
  /// Gives up the memory of the model. A later test makes it anew.
  void drop_model() { model_.reset(); }

private:
  tested_model& here() {
    if (!model_) model_ = std::make_unique<tested_model>(build_, request_, *layout_, gpu_.value_or(device{}));
    return *model_;
  }
  bool leave_gpu(const char* why);

  model_function build_;
  model_request request_;
  std::shared_ptr<const parameter_layout> layout_;
  std::optional<device> gpu_;
  std::string why_on_host_;
  std::unique_ptr<tested_model> model_; ///< made for the first test
};

/// Tests the weights with which a run ends, and adds what it finds to the report: loss and accuracy or error
/// on the test samples and on those held out, and a text that a model of texts writes. A run that has
/// diverged is not tested. One whose weights are not finite has diverged, and so has one whose loss is
/// nonsense (early_stop.hpp). If the test throws, the run has failed, with the text of the exception.
///
/// The test is made on a GPU if the run has one (run_tester), where this thread waits for it.
///
/// `stop` is called repeatedly; if it returns true, the test ends, and its figures stay unknown.
/// Shapes  weights: float32[plan.layout->size()]; empty if a shard was lost, then nothing is tested.
void test_trained(training_report& r, const run_plan& plan, std::span<const float> weights,
                  const std::function<bool()>& stop);

} // namespace mailgrad
