#include <mailgrad/actors/protocol/register_messages.hpp>

#include <mailgrad/actors/protocol/messages.hpp>

namespace mailgrad {

// CAF generates code for every message here. This file is its own, because that takes the compiler seconds.
void register_messages(caf::actor_system_config& config) {
  caf_compat::configure<caf::id_block::mailgrad>(config);
}

} // namespace mailgrad
