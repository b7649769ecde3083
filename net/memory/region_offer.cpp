#include <mailgrad/net/memory/region_offer.hpp>

#include <mailgrad/net/ending.hpp>

#include <fmt/format.h>

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace mailgrad::net {

namespace {

constexpr std::string_view offer_magic = "mgmr";

/// Room for one descriptor beside the bytes of a message. The kernel closes those that are too many.
struct beside {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};

  void attach_to(msghdr& m) noexcept {
    m.msg_control = room.data();
    m.msg_controllen = room.size();
  }
};

descriptor descriptor_in(msghdr& m) noexcept {
  const cmsghdr* c = CMSG_FIRSTHDR(&m);
  if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(int)))
    return {};
  int number = -1;
  std::memcpy(&number, CMSG_DATA(c), sizeof number);
  return descriptor(number);
}

} // namespace

bytes encode(const region_offer& o) {
  bytes all;
  frame_writer(all).raw(as_bytes(offer_magic)).u32(region_offer::layout).u64(o.ring_bytes);
  return all;
}

region_offer decode_region_offer(byte_view offer) {
  frame_reader reader{"shared memory", offer};
  for (const char expected : offer_magic)
    if (reader.u8() != static_cast<std::uint8_t>(expected)) reader.fail("expected an offer of memory");
  if (const std::uint32_t layout = reader.u32(); layout != region_offer::layout)
    reader.fail(fmt::format("expected layout {}, found {}", region_offer::layout, layout));
  const region_offer o{reader.u64()};
  reader.end();
  return o;
}

bool send_offer(int socket, const shared_region& region) noexcept {
  bytes offer = encode(region_offer{region.ring_bytes()});
  iovec part{offer.data(), offer.size()};
  msghdr m{};
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  beside with;
  with.attach_to(m);
  cmsghdr* c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int));
  const int number = region.memory();
  std::memcpy(CMSG_DATA(c), &number, sizeof number);
  return sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(offer.size());
}

std::optional<shared_region> take_offer(int socket) {
  std::array<std::byte, region_offer::size> offer;
  iovec part{offer.data(), offer.size()};
  msghdr m{};
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  beside with;
  with.attach_to(m);
  const ssize_t count = recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (count <= 0)
    throw protocol_error("shared memory: expected an offer of memory, found a closed connection");
  const descriptor memory = descriptor_in(m);
  const region_offer found = decode_region_offer(byte_view{offer}.first(static_cast<std::size_t>(count)));
  if (!memory) throw protocol_error("shared memory: expected a descriptor beside the offer, found none");
  return shared_region::of_peer(memory.number(), found.ring_bytes);
}

std::optional<uid_t> user_of_peer(int socket) noexcept {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

} // namespace mailgrad::net
