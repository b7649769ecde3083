#pragma once

#include <mailgrad/graph/parameter_layout.hpp>

#include <optional>
#include <span>
#include <string>

namespace mailgrad {

/// The first weight that is no finite number, in words: "weight 12 of 'hidden.weights' on shard 0 is nan".
/// None if all weights are finite.
///
/// Shapes  weights: float32[layout.size()].
/// Errors  shape_error if there are more or fewer.
std::optional<std::string> not_finite_in_words(const parameter_layout& layout,
                                               std::span<const float> weights);

} // namespace mailgrad
