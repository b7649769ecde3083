#pragma once

#include <mailgrad/kernels/update.hpp>

namespace mailgrad::cuda {

/// update() on a stream of a GPU. All memory lies on its device; the call returns before the kernel has run.
void update(const cuda_stream& s, const update_rule& rule, const weight_penalty& penalty,
            const weight_update& work, std::span<float* const> state);

} // namespace mailgrad::cuda
