#include <mailgrad/net/memory/region_offer.hpp>

#include <mailgrad/net/ending.hpp>

#include <fmt/format.h>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

namespace mailgrad::net {

namespace {

/// None if the kernel says nothing.
std::optional<ucred> credentials_of_peer(int socket) noexcept {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

constexpr std::string_view offer_magic = "mgmr";

constexpr std::size_t most_descriptors = 2;

/// Room for descriptors beside the bytes of a message. The kernel closes those that are too many.
struct beside {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(most_descriptors * sizeof(int))> room{};

  void attach_to(msghdr& m, std::size_t count) noexcept {
    m.msg_control = room.data();
    m.msg_controllen = CMSG_SPACE(count * sizeof(int));
  }
};

/// Sends all of these bytes with descriptors beside them, or nothing.
bool send_with(int socket, std::span<std::byte> text, std::span<const int> numbers) noexcept {
  iovec part{text.data(), text.size()};
  msghdr m{};
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  beside with;
  with.attach_to(m, numbers.size());
  cmsghdr* c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(numbers.size_bytes());
  std::memcpy(CMSG_DATA(c), numbers.data(), numbers.size_bytes());
  return sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

/// Reads bytes and the descriptors beside them. What recvmsg() returns.
ssize_t receive_with(int socket, std::span<std::byte> text,
                     std::array<descriptor, most_descriptors>& found) noexcept {
  iovec part{text.data(), text.size()};
  msghdr m{};
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  beside with;
  with.attach_to(m, most_descriptors);
  const ssize_t count = recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const cmsghdr* c = count > 0 ? CMSG_FIRSTHDR(&m) : nullptr;
  if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) return count;
  const std::size_t there = std::min((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), most_descriptors);
  std::array<int, most_descriptors> numbers{};
  std::memcpy(numbers.data(), CMSG_DATA(c), there * sizeof(int));
  for (std::size_t i = 0; i < there; ++i) found[i] = descriptor(numbers[i]);
  return count;
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

bool send_offer(int socket, const shared_region& region, int heap) noexcept {
  bytes offer = encode(region_offer{region.ring_bytes()});
  const std::array<int, most_descriptors> numbers{region.memory(), heap};
  return send_with(socket, offer, std::span(numbers).first(heap < 0 ? 1 : 2));
}

std::optional<offered> take_offer(int socket) {
  std::array<std::byte, region_offer::size> offer;
  std::array<descriptor, most_descriptors> memory;
  const ssize_t count = receive_with(socket, offer, memory);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (count <= 0)
    throw protocol_error("shared memory: expected an offer of memory, found a closed connection");
  const region_offer found = decode_region_offer(byte_view{offer}.first(static_cast<std::size_t>(count)));
  if (!memory[0]) throw protocol_error("shared memory: expected a descriptor beside the offer, found none");
  return offered{shared_region::of_peer(memory[0].number(), found.ring_bytes), std::move(memory[1])};
}

void send_heap(int socket, int heap) noexcept {
  std::byte call{1};
  (void)send_with(socket, {&call, 1}, {&heap, 1}); // or else the peer is gone
}

ssize_t take_calls(int socket, descriptor& heap) noexcept {
  std::array<std::byte, 64> calls;
  std::array<descriptor, most_descriptors> found;
  const ssize_t count = receive_with(socket, calls, found);
  if (found[0]) heap = std::move(found[0]);
  return count;
}

std::optional<uid_t> user_of_peer(int socket) noexcept {
  const auto peer = credentials_of_peer(socket);
  return peer ? std::optional(peer->uid) : std::nullopt;
}

std::string process_at(int socket) {
  const auto peer = credentials_of_peer(socket);
  return peer && peer->pid > 0 ? fmt::format("process {}", peer->pid) : "a process";
}

} // namespace mailgrad::net
