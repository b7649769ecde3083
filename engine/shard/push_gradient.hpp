#pragma once

#include <mailgrad/engine/account/gradient_ledger.hpp>
#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/optim/identity.hpp>

namespace mailgrad {

/// Of a gradient that workers have added up with theirs before they pushed: where the sum is.
struct sum_tag {
  rank carrier;                ///< whose gradient of the same step has the sum as its values
  std::uint32_t gradients = 0; ///< in the sum
};

/// What a shard needs to know of a gradient to judge it, without pointers and points in time.
struct gradient_header {
  gradient_id id;
  version_number version_read{}; ///< the version of this shard's weights that the gradient was computed from
  policy_epoch epoch{};          ///< the epoch of the policy that it was computed under
  std::uint32_t scale_bits = 0;  ///< the bits of a float: the factor of clipping, 1 without it
  gradient_times times{};
  std::uint64_t batches = 0;    ///< that this incarnation has trained, those behind this included
  std::uint64_t samples = 0;    ///< in these batches
  std::optional<sum_tag> sum{}; ///< none: the gradient has values of its own
  /// Whether the values are in the gradient of another worker.
  bool is_carried() const { return sum && sum->carrier != id.worker; }
};

/// The gradient itself, in memory of this process.
struct gradient_payload {
  /// Null if another worker carries them, or if each shard has predicted that it discards the gradient.
  std::shared_ptr<const gradient> values;
  snapshot read{};               ///< the weights of `version_read`, if the shard shall measure their distance
  std::optional<instant> sent{}; ///< the time of sending by the clock of this process, if it was noted
  /// Of one from another process: its share of the room for those that arrive, which its reader lets go.
  std::shared_ptr<const void> room{};
  /// Of one from another process whose worker shares credit with others: is let go when the gradient is added
  /// up, or when it is known that it will be kept until its batch is complete.
  std::shared_ptr<const void> credit{};
};

/// A worker sends this to each shard, once for each step. The shard answers with `shard_weights` as soon as
/// the policy lets the worker begin its next step.
struct push_gradient {
  gradient_header header;
  gradient_payload payload;
};

} // namespace mailgrad
