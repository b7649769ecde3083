#pragma once

#include <mailgrad/engine/account/time_split.hpp>
#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/optim/policies/policy.hpp>
#include <mailgrad/tensor/block.hpp>

#include <cstdint>
#include <memory>

namespace mailgrad {

/// Device to each shard, once a step. Answered with `shard_weights`, as soon as the policy lets the worker
/// start again.
struct push_gradient {
  rank worker;
  std::uint64_t step = 0;         ///< the worker's own count, from 1
  std::uint64_t version_read = 0; ///< of this shard's weights
  std::uint64_t epoch = 0;        ///< of the policy, counts its switches
  std::uint32_t scale_bits = 0;   ///< float: what the gradient counts with (clipping), 1 if as it is
  std::shared_ptr<const gradient> values;
  gradient_times times{};
  std::shared_ptr<const block> read{}; ///< the weights of `version_read`, if their distance is to be sampled
};

} // namespace mailgrad
