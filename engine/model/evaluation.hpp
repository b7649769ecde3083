#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/model/bound_model.hpp>

#include <functional>
#include <optional>
#include <span>

namespace mailgrad {

/// How good weights are on samples they have not seen.
struct evaluation {
  std::optional<double>
      accuracy;               ///< share of labels that are the largest logit of their row; of classes only
  std::optional<double> rmse; ///< root of the mean squared error, in the unit of the targets; of numbers only
  double loss = 0;            ///< mean over the samples
  bool whole = true;          ///< else it was ended early, and says nothing of all samples
};

/// Runs the model, as `request.worker` builds it, over all of `samples` on the calling thread. `stop` is
/// asked every few hundred samples; true ends it.
///
/// Shapes  parameters: float32[layout.size()], the whole flat vector.
/// Errors  shape_error for other parameters than the layout has; std::invalid_argument for samples of another
///         kind or size than the request's, or no model function; graph_error as build_fitting; device_error.
evaluation evaluate(const model_function& build, model_request request, const parameter_layout& layout,
                    std::span<const float> parameters, const dataset& samples,
                    const std::function<bool()>& stop = {});

} // namespace mailgrad
