// What CAF 0.17 and 1.x spell differently. Only this header, wire.hpp and messaging.hpp know
// on which CAF they are built. Everything else (quit, exit reasons, spawn options) is spelled alike in both.
// The branches for 0.17 can be deleted when Debian no longer has 0.17.6.
#pragma once

#include <caf/all.hpp>

#include <string>

#if CAF_MAJOR_VERSION >= 1 // not CAF_VERSION: 1.1.0 defines that as octal 0100
#define MAILGRAD_ERROR_ENUM(type, category) CAF_ERROR_CODE_ENUM(type)
#else
#define MAILGRAD_ERROR_ENUM(type, category) CAF_ERROR_CODE_ENUM(type, category)
#endif

namespace mailgrad::caf_compat {

inline constexpr bool is_caf_1 = CAF_MAJOR_VERSION >= 1;

/// The full name of a CAF option such as "scheduler.max-threads".
inline std::string option(const std::string& name) { return is_caf_1 ? "caf." + name : name; }

/// Gives all threads one queue, first come, first served. With the default, a stack for each thread, actors
/// that keep each other busy starve the others: a request to stop would wait until the end of the run.
inline void share_work(caf::actor_system_config& config) {
#if CAF_MAJOR_VERSION >= 1
  config.set("caf.scheduler.policy", "sharing");
#else
  config.set("scheduler.policy", caf::atom("sharing"));
#endif
}

/// Registers message types. It must be called in the config's constructor, before any actor system exists.
template <class... Blocks>
void configure([[maybe_unused]] caf::actor_system_config& config) {
#if CAF_MAJOR_VERSION >= 1
  caf::core::init_global_meta_objects();
  (caf::init_global_meta_objects<Blocks>(), ...);
#else
  (config.template add_message_types<Blocks>(), ...);
#endif
}

} // namespace mailgrad::caf_compat
