#pragma once

#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/optim/identity.hpp>
#include <mailgrad/tensor/memory.hpp>

namespace mailgrad {

/// The weights of a shard just before a gradient was applied to them, alone or in a batch. The shard keeps
/// them for sampled gradients, and under a cure that draws workers towards the weights that they met.
struct weights_met {
  step_number step{}; ///< of the gradient
  snapshot values;
};

/// How long a worker's gradient was at a shard, in ns, in the order in which the spans follow each other.
struct stay_at_shard {
  std::int64_t in_mailbox = 0;     ///< until the shard handled the message
  std::int64_t until_barrier = 0;  ///< then until its barrier opened; 0: there was no barrier
  std::int64_t under_bound = 0;    ///< then for as long as a bound held the worker back; 0: none did
  std::int64_t until_answered = 0; ///< then until this answer
};

/// What a device must know of weights before it uses them. The header can be sent to other processes.
struct weights_header {
  shard_index shard;
  version_number version;
  policy_epoch epoch;                  ///< a device takes only weights of the epoch it is in
  std::optional<stay_at_shard> stay{}; ///< of the answered gradient; none if this answers none
  step_number met{};                   ///< the step that met `weights_payload::met`; 0: none did
  std::uint64_t checkpoint = 0;        ///< the last one for which the shard has kept its state; 0: none
  step_number discarded{};             ///< the last step of the worker that the shard has discarded; 0: none
};

struct weights_payload {
  snapshot values;                  ///< not written to while the snapshot is held
  snapshot met{};                   ///< the weights met by the worker's last such gradient; each is sent once
  std::optional<instant> arrived{}; ///< in this process, by its clock; none if they were made here
};

/// Shard to device, after `join_shard` or `push_gradient` or when a policy begins: the weights to go on with.
struct shard_weights {
  weights_header header;
  weights_payload payload;
};

} // namespace mailgrad
