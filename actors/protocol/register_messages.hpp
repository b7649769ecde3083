#pragma once

#include <mailgrad/actors/protocol/caf_compat.hpp>

namespace mailgrad {

/// Registers every message of Mailgrad. It must be called in the config's constructor, before any actor
/// system exists.
void register_messages(caf::actor_system_config& config);

} // namespace mailgrad
