#pragma once

#include <mailgrad/net/frame_fields.hpp>
#include <mailgrad/net/memory/shared_region.hpp>

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>

// How two processes come to share memory. A client connects to a socket of the system's, and the server's
// first word is an offer, with a descriptor of the memory beside it. After that the socket carries calls:
// single bytes that wake whoever sleeps.

namespace mailgrad::net {

/// What stands in an offer.
struct region_offer {
  static constexpr std::uint32_t layout = 1; ///< of the memory; another number is another layout
  static constexpr std::size_t size = 16;    ///< bytes

  std::uint64_t ring_bytes = 0;
};

bytes encode(const region_offer& o);
/// Errors  protocol_error.
region_offer decode_region_offer(byte_view offer);

/// Offers the memory on a socket that nothing was written to yet. False if the peer is gone.
bool send_offer(int socket, const shared_region& region) noexcept;
/// The memory that was offered, mapped. None: there is no offer yet.
///
/// Errors  protocol_error for what is no offer, or if the peer has closed. std::system_error if the memory
///         cannot be mapped.
std::optional<shared_region> take_offer(int socket);

/// The user whose process is at the other end, as the kernel says. None if it says nothing.
std::optional<uid_t> user_of_peer(int socket) noexcept;

} // namespace mailgrad::net
