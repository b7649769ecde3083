#pragma once

#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/graph/parameter_layout.hpp>

#include <cstdint>

// How large the messages of a run over processes are at most. A peer that announces more is broken, and no
// memory is taken for it.

namespace mailgrad {

/// The bytes that a rule keeps besides a few floats for each weight, for all variables of a model.
std::uint64_t bytes_of_matrices(const optimizer_options& rule, const parameter_layout& layout);

/// Of those between a worker of so many devices and a shard, in bytes: a gradient, with what each further
/// device adds, and the weights that it was computed from; or two versions of weights.
std::uint64_t largest_exchange(const parameter_layout& layout, std::uint32_t devices);

/// Of all that the server of this run sends and takes, in bytes: also batches, parts of checkpoints, and the
/// terms of the shards that each of so many parameter hosts holds; 0: the server holds them.
///
/// The plan must have data.
std::uint64_t largest_body(const run_plan& plan, std::uint32_t hosts);

} // namespace mailgrad
