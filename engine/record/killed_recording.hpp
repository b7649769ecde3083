#pragma once

#include <mailgrad/engine/record/rehearsal.hpp>

namespace mailgrad {

/// What of a recording can be repeated whose run was killed: as if somebody had stopped it there. Each shard
/// takes all its turns that find their gradients. A gradient that some shard has taken is taken by all: by
/// those whose turn is not recorded at the end, in the order in which the others took them.
///
/// Errors  as require_repeatable() and rehearsal.
recording repeatable_part(const recording& r, const replay_terms& terms);

} // namespace mailgrad
