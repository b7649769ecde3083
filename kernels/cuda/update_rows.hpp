#pragma once

#include <mailgrad/kernels/update.hpp>

namespace mailgrad::cuda {

/// update_summed_rows() on a stream of a card.
///
/// Errors  shape_error for a list of 2^31 rows or more, or for more gradients than the lane's scratch memory
///         can list, some 20,000.
void update_summed_rows(const cuda_stream& s, const update_rule& rule, const weight_penalty& penalty,
                        const summed_row_update& work, std::span<float* const> state);

} // namespace mailgrad::cuda
