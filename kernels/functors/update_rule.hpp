#pragma once

#include <mailgrad/kernels/functors/adagrad_update.hpp>
#include <mailgrad/kernels/functors/adam_update.hpp>
#include <mailgrad/kernels/functors/delayed_nesterov_update.hpp>
#include <mailgrad/kernels/functors/momentum_update.hpp>
#include <mailgrad/kernels/functors/nesterov_update.hpp>
#include <mailgrad/kernels/functors/rmsprop_update.hpp>
#include <mailgrad/kernels/functors/sgd_update.hpp>

#include <variant>

namespace mailgrad {

/// Every update rule, with its factors for one step: `rule(w, g, state...)` changes one weight and its
/// `states` floats.
///
/// A rule in this list runs on dense and sparse gradients, on the host and on a GPU. There is no other list.
using update_rule = std::variant<sgd_update, momentum_update, nesterov_update, adagrad_update, rmsprop_update,
                                 adam_update, delayed_nesterov_update>;

} // namespace mailgrad
