#pragma once

#include <mailgrad/net/descriptor.hpp>

#include <string>

// Abstract Unix sockets: their names stand in no file system, and are free again when nobody listens. Every
// descriptor is closed in programs that this one starts, since a copy there would keep a connection open.

namespace mailgrad::net {

/// A socket at which processes of this machine connect, under this name.
///
/// Errors  std::system_error; the code is EADDRINUSE if the name is taken.
descriptor listening_at(const std::string& name);

/// A socket that is connected to whoever listens under this name. `failed` is 0 then, or the error.
struct dialled {
  descriptor socket{};
  int failed = 0;
};
dialled connected_to(const std::string& name);

/// Who has connected. None if nobody has, or there is no descriptor left; then `errno` says so.
descriptor accepted_at(int listener) noexcept;

} // namespace mailgrad::net
