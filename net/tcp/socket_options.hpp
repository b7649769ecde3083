#pragma once

#include <mailgrad/net/timing.hpp>

namespace mailgrad::net {

/// Where the peer is.
enum class distance { on_this_machine, on_another };

/// How much of each connection the kernel holds. Told before it stands, since the largest window is agreed on
/// at its begin; it may be made less later. A kernel that refuses an option goes on without it.
void set_buffers(int socket, distance d) noexcept;

/// Small frames go at once, and no more than is needed waits in the kernel.
void set_latency(int socket) noexcept;

/// A peer that confirms nothing, or takes nothing, is given up after the longest silence that a session
/// allows.
void set_patience(int socket, const timing& times) noexcept;

/// A program that this process starts does not get the socket. Else a listener, or a connection, would stay
/// open for its peers when this process is gone.
void keep_from_children(int socket) noexcept;

} // namespace mailgrad::net
