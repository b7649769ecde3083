#pragma once

#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/operations/quadratic.hpp>
#include <mailgrad/options/settings.hpp>

namespace mailgrad {

struct quadratic_model_options {
  std::size_t dimension = 100;
  quadratic_options function{}; ///< the seed is that of the request
  float start = 1;              ///< where each coordinate begins; a chain begins at 0
};

/// The quadratic of quadratic_options with one variable, "x". It reads no features. Where samples have a
/// number as their target, that is the centre of the sample's own quadratic, and x estimates their mean;
/// otherwise the centre is 0. An evaluation has no noise.
///
/// Errors  graph_error for texts, and for targets of several numbers.
model_outputs build_quadratic(graph& g, const quadratic_model_options& options, const model_request& request);

/// Takes the settings of
/// "quadratic:dimension=100,curvature=1,condition=1,noise=0,noise-form=each,start=1,form=diagonal".
///
/// Errors  as settings.
quadratic_model_options take_quadratic_options(settings& s);

} // namespace mailgrad
