// The code of every message is compiled here, for half a minute. So no other source is
// compiled together with this one.
#define MAILGRAD_EXTERN

#include <mailgrad/actors/protocol/messages.hpp>

namespace mailgrad {

void register_messages(caf::actor_system_config& config) {
  caf_compat::configure<caf::id_block::mailgrad>(config);
}

} // namespace mailgrad
