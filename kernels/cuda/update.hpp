#pragma once

#include <mailgrad/kernels/update.hpp>

namespace mailgrad::cuda {

/// The states of the weights, as an argument of a kernel.
template <class Rule>
struct state_list {
  float* items[Rule::states + 1]; // one more, since a rule may have none
};

/// update() on a stream of a GPU. All memory lies on its device; the call returns before the kernel has run.
void update(const cuda_stream& s, const update_rule& rule, const weight_penalty& penalty,
            const weight_update& work, std::span<float* const> state);

/// Keeps rule and penalty in the lane's words, for update_as_begun() on the same stream.
///
/// Errors  device_error.
void begin_update(const cuda_stream& s, const update_rule& rule, const weight_penalty& penalty);

/// update() with the rule and penalty that begin_update() last gave, also a penalty of zero. Nothing in it
/// depends on the step, so it can be captured once and replayed with another learning rate. begin_update()
/// gives a rule of the kind of `kind` before each replay.
///
/// Errors  as update(); shape_error for more gradients than 32.
void update_as_begun(const cuda_stream& s, const update_rule& kind, const weight_update& work,
                     std::span<float* const> state);

} // namespace mailgrad::cuda
