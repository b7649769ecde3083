#pragma once

#include <mailgrad/engine/record/rehearsal.hpp>

namespace mailgrad {

/// The part of a killed run's recording that can be repeated, as if the run had been stopped there. Each
/// shard takes all recorded turns whose gradients arrive. A gradient that one shard has taken is taken by
/// all. A shard without a recorded turn for it takes it at the end, in the order in which other shards took
/// such gradients.
///
/// Errors  as require_repeatable() and rehearsal.
recording repeatable_part(const recording& r, const replay_terms& terms);

} // namespace mailgrad
