#include <mailgrad/net/memory/shared_region.hpp>

#include <mailgrad/net/ending.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>

namespace mailgrad::net {

namespace {

static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free &&
              std::atomic_ref<std::uint32_t>::is_always_lock_free);

/// The other side may begin with these while the rest is being copied.
constexpr std::size_t bytes_at_once = 64 << 10;

constexpr std::size_t counter_bytes = 4 << 10; // a page
static_assert(sizeof(ring_counters) <= counter_bytes);
constexpr int needed_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::size_t region_bytes(std::size_t ring_bytes) noexcept { return 2 * (counter_bytes + ring_bytes); }

/// None if the kernel says nothing.
std::optional<ucred> credentials_of_peer(int socket) noexcept {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

constexpr std::string_view offer_magic = "mgmr";
constexpr std::size_t most_descriptors = 2;

/// The bytes of a message, and room for descriptors beside them. The kernel closes those that are too many.
struct message {
  message(std::span<std::byte> text, std::size_t descriptors) noexcept : part{text.data(), text.size()} {
    head.msg_iov = &part;
    head.msg_iovlen = 1;
    head.msg_control = room.data();
    head.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
  }
  message(const message&) = delete;
  message& operator=(const message&) = delete;

  alignas(cmsghdr) std::array<char, CMSG_SPACE(most_descriptors * sizeof(int))> room{};
  iovec part;
  msghdr head{};
};

/// Sends all of these bytes with descriptors beside them, or nothing.
bool send_with(int socket, std::span<std::byte> text, std::span<const int> numbers) noexcept {
  message m(text, numbers.size());
  cmsghdr* c = CMSG_FIRSTHDR(&m.head);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(numbers.size_bytes());
  std::memcpy(CMSG_DATA(c), numbers.data(), numbers.size_bytes());
  return sendmsg(socket, &m.head, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

/// Reads bytes and the descriptors beside them. What recvmsg() returns.
ssize_t receive_with(int socket, std::span<std::byte> text,
                     std::array<descriptor, most_descriptors>& found) noexcept {
  message m(text, most_descriptors);
  const ssize_t count = recvmsg(socket, &m.head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const cmsghdr* c = count > 0 ? CMSG_FIRSTHDR(&m.head) : nullptr;
  if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) return count;
  const std::size_t there = std::min((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), most_descriptors);
  std::array<int, most_descriptors> numbers{};
  std::memcpy(numbers.data(), CMSG_DATA(c), there * sizeof(int));
  for (std::size_t i = 0; i < there; ++i) found[i] = descriptor(numbers[i]);
  return count;
}

} // namespace

std::size_t ring_side::movable() {
  const std::uint64_t most = mine_ + data_.size() - free_;
  const std::uint64_t found = std::atomic_ref(*their_end_.count).load(std::memory_order_seq_cst);
  if (found < theirs_ || found > most)
    throw protocol_error("shared memory: expected {} of {} to {}, found {}", their_end_.what, theirs_, most,
                         found);
  theirs_ = found;
  return static_cast<std::size_t>(theirs_ + free_ - mine_);
}

template <class Copy>
std::size_t ring_side::move(std::span<const iovec> parts, Copy copy) {
  std::size_t left = movable(), total = 0, unpublished = 0;
  for (const iovec& part : parts)
    for (std::size_t done = 0; done < part.iov_len && left > 0;) {
      const std::size_t count = std::min({part.iov_len - done, left, bytes_at_once - unpublished});
      const auto at = static_cast<std::size_t>(mine_ % data_.size());
      const std::size_t first = std::min(count, data_.size() - at);
      auto* const place = static_cast<std::byte*>(part.iov_base) + done;
      copy(data_.data() + at, place, first);
      copy(data_.data(), place + first, count - first);
      mine_ += count;
      done += count;
      total += count;
      left -= count;
      unpublished += count;
      if (unpublished == bytes_at_once) {
        publish();
        unpublished = 0;
      }
      if (left == 0) left = movable();
    }
  if (unpublished > 0) publish();
  return total;
}

void ring_side::publish() noexcept {
  std::atomic_ref(*my_end_.count).store(mine_, std::memory_order_seq_cst);
}

bool ring_side::call() {
  std::atomic_ref(*my_end_.calls).store(1, std::memory_order_seq_cst);
  if (movable() == 0) return false;
  end_call();
  return true;
}

void ring_side::end_call() noexcept { std::atomic_ref(*my_end_.calls).store(0, std::memory_order_relaxed); }

/// Most of the time the flag is down, and looking at it costs less than changing it.
bool ring_side::is_called() noexcept {
  const std::atomic_ref shared(*their_end_.calls);
  return shared.load(std::memory_order_seq_cst) != 0 && shared.exchange(0, std::memory_order_seq_cst) != 0;
}

std::size_t ring_writer::write(std::span<const iovec> from) {
  return move(from, [](std::byte* in_ring, const std::byte* place, std::size_t n) {
    std::memcpy(in_ring, place, n);
  });
}

std::size_t ring_reader::read(std::span<const iovec> to) {
  return move(
      to, [](const std::byte* in_ring, std::byte* place, std::size_t n) { std::memcpy(place, in_ring, n); });
}

shared_region shared_region::make(std::size_t ring_bytes) {
  descriptor memory(memfd_create("mailgrad", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) fail_in_system("shared memory: this system has none for two processes; use HOST:PORT");
  if (ftruncate(memory.number(), static_cast<off_t>(region_bytes(ring_bytes))) != 0 ||
      fcntl(memory.number(), F_ADD_SEALS, needed_seals) != 0)
    fail_in_system("shared memory: there is no more of it");
  shared_region made(memory.number(), ring_bytes);
  made.memory_ = std::move(memory);
  return made;
}

shared_region shared_region::of_peer(int memory, std::size_t ring_bytes) {
  const int seals = fcntl(memory, F_GET_SEALS);
  if (seals < 0 || (seals & needed_seals) != needed_seals)
    throw protocol_error("shared memory: expected memory whose length is sealed, found another descriptor");
  if (ring_bytes < least_ring_bytes || ring_bytes > most_ring_bytes || ring_bytes % counter_bytes != 0)
    throw protocol_error("shared memory: expected rings of {} to {} bytes, found {}", least_ring_bytes,
                         most_ring_bytes, ring_bytes);
  struct stat found {};
  if (fstat(memory, &found) != 0 || found.st_size != static_cast<off_t>(region_bytes(ring_bytes)))
    throw protocol_error("shared memory: expected {} bytes for two rings, found {}", region_bytes(ring_bytes),
                         found.st_size);
  return shared_region(memory, ring_bytes);
}

shared_region::shared_region(int memory, std::size_t ring_bytes) : ring_bytes_(ring_bytes) {
  void* at = mmap(nullptr, region_bytes(ring_bytes), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (at == MAP_FAILED) fail_in_system("shared memory: it cannot be mapped");
  begin_ = {static_cast<std::byte*>(at), {region_bytes(ring_bytes)}};
}

ring_memory shared_region::ring(std::size_t n) const noexcept {
  std::byte* const at = begin_.get() + n * (counter_bytes + ring_bytes_);
  return {reinterpret_cast<ring_counters*>(at), {at + counter_bytes, ring_bytes_}};
}

bytes encode(const region_offer& o) {
  return frame_writer{}.raw(as_bytes(offer_magic)).u32(region_offer::layout).u64(o.ring_bytes).take();
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
