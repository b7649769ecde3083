#pragma once

#include <mailgrad/kernels/update.hpp>
#include <mailgrad/optim/own_rule.hpp>

#include <cstdint>
#include <span>

namespace mailgrad {

/// One step of a user's rule: the counterpart of `update_rule` in kernels/update.hpp.
struct own_update {
  const mailgrad_rule* table = nullptr;
  std::span<const double> settings{};
  double learning_rate = 0;
  std::uint64_t step = 1; ///< counts from 1
};

/// update() and update_rows() of kernels/update.hpp, with the same shapes, errors and threads, on the host
/// only. The rule is given summed gradients, with the penalty applied unless the rule prepares gradients
/// itself. Rows must be distinct (row_sum makes them so), because narrow rows are updated several at a time.
void update(const stream& s, const own_update& rule, const weight_penalty& penalty, const weight_update& work,
            std::span<float* const> state);
void update_rows(const stream& s, const own_update& rule, const weight_penalty& penalty,
                 const row_update& work, std::span<float* const> state);

} // namespace mailgrad
