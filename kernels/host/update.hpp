#pragma once

#include <mailgrad/kernels/update.hpp>

namespace mailgrad::host {

// kernels/update.hpp on the calling thread. The caller has checked all sizes.

void update(const update_rule& rule, const weight_penalty& penalty, const weight_update& work,
            std::span<float* const> state);
void update_rows(const update_rule& rule, const weight_penalty& penalty, const row_update& work,
                 std::span<float* const> state);

} // namespace mailgrad::host
