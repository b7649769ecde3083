#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/model/tested_model.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace mailgrad {

/// The quality of weights on samples that were not trained on. A model that reads none has no accuracy.
struct evaluation {
  std::optional<double>
      accuracy;               ///< share of rows whose largest logit is that of the label; for classes only
  std::optional<double> rmse; ///< root of the mean squared error, in the targets' unit; for numbers only
  double loss = 0;            ///< mean over the samples
  bool whole = true;          ///< false if it ended early, so that not all samples count
  /// How many samples of each class got each answer: [classes, classes], by label and then by answer. Empty
  /// for numbers, for tokens and for more than 1024 classes.
  std::vector<std::uint64_t> confusion{};
};

/// Runs the model, as `request.worker` builds it, over all of `samples` on the calling thread. It calls
/// `stop` every few hundred samples and ends early when that returns true.
///
/// Shapes  parameters: float32[layout.size()], the whole flat vector.
/// Errors  shape_error for other parameters than the layout has; std::invalid_argument for samples of another
///         kind or size than the request's, or no model function; graph_error as build_fitting; device_error.
evaluation evaluate(const model_function& build, model_request request, const parameter_layout& layout,
                    std::span<const float> parameters, const dataset& samples,
                    const std::function<bool()>& stop = {});
/// The same where `model` is, with the weights that it has.
evaluation evaluate(tested_model& model, const dataset& samples, const std::function<bool()>& stop = {});

/// The logits or the predicted numbers of each sample, in the order of the samples. Runs on the calling
/// thread, with the model that `request.worker` builds for an evaluation.
///
/// Shapes  parameters: float32[layout.size()]; the result: float32[samples, request.outputs()].
/// Errors  as evaluate(); std::invalid_argument for a model of tokens, whose samples are no arrays.
std::vector<float> predict(const model_function& build, const model_request& request,
                           const parameter_layout& layout, std::span<const float> parameters,
                           const named_arrays& samples);
/// The same for samples of any kind, whose labels are not looked at. For tokens, the logits of each place in
/// a window: float32[samples, window length, classes].
std::vector<float> predict(const model_function& build, const model_request& request,
                           const parameter_layout& layout, std::span<const float> parameters,
                           const dataset& samples);
/// The same where `model` is, with the weights that it has.
std::vector<float> predict(tested_model& model, const dataset& samples);

} // namespace mailgrad
