#pragma once

#include <mailgrad/net/frame.hpp>
#include <mailgrad/net/memory/shared_region.hpp>

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

// How two processes come to share memory. A client connects to a socket of the system's, and the server's
// first word is an offer, with a descriptor of the memory beside it. After that the socket carries calls:
// single bytes that wake whoever sleeps.

namespace mailgrad::net {

/// What stands in an offer.
struct region_offer {
  static constexpr std::uint32_t layout = 2; ///< of the memory; another number is another layout
  static constexpr std::size_t size = 16;    ///< bytes

  std::uint64_t ring_bytes = 0;
};

bytes encode(const region_offer& o);
/// Errors  protocol_error.
region_offer decode_region_offer(byte_view offer);

/// What a server offers: rings, and a descriptor of the heap from which it lends, if it lends.
struct offered {
  shared_region region;
  descriptor heap{};
};

/// Offers memory on a socket that nothing was written to yet; `heap` is -1 if there is none. False if the
/// peer is gone.
bool send_offer(int socket, const shared_region& region, int heap = -1) noexcept;
/// The memory that was offered, the rings mapped. None: there is no offer yet.
///
/// Errors  protocol_error for what is no offer, or if the peer has closed. std::system_error if the memory
///         cannot be mapped.
std::optional<offered> take_offer(int socket);

/// A client's answer, before it writes anything else: the heap from which it lends.
void send_heap(int socket, int heap) noexcept;
/// Reads one or more calls, and a descriptor if there is one beside them. What recv() returns.
ssize_t take_calls(int socket, descriptor& heap) noexcept;

/// The user whose process is at the other end, as the kernel says. None if it says nothing.
std::optional<uid_t> user_of_peer(int socket) noexcept;
/// For people: "process 1234", by the numbers of this process's namespace; "a process" if it has none there.
std::string process_at(int socket);

} // namespace mailgrad::net
