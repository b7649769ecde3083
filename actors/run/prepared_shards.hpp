#pragma once

#include <mailgrad/actors/protocol/messages.hpp>

#include <span>

namespace mailgrad {

/// Waits until each of these shards has the memory that it begins with, on a thread that no actor needs. A
/// shard takes it on a thread of its own when it is first scheduled.
///
/// Errors  out_of_memory: a shard lacks some; std::runtime_error: a shard has ended otherwise. Both have its
///         last words.
void wait_until_prepared(caf::actor_system& system, std::span<const caf::actor> shards);

} // namespace mailgrad
