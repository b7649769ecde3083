#pragma once

#include <mailgrad/actors/bound_model.hpp>
#include <mailgrad/data/dataset.hpp>

#include <functional>
#include <span>

namespace mailgrad {

/// How good weights are on samples they have not seen.
struct evaluation {
  double accuracy = 0; ///< share of labels that are the largest logit of their row
  double loss = 0;     ///< mean over the samples
  bool whole = true;   ///< else it was ended early, and says nothing of all samples
};

/// Runs the model over all of `samples` on the calling thread. `stop` is asked every few hundred samples; true ends it.
///
/// Shapes  parameters: float32[layout.size()], the whole flat vector.
/// Errors  graph_error from the model function; device_error.
evaluation evaluate(const model_function& build, model_request request, const parameter_layout& layout,
                    std::span<const float> parameters, const dataset& samples,
                    const std::function<bool()>& stop = {});

} // namespace mailgrad
