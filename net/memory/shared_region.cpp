#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/memory/shared_region.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

namespace mailgrad::net {

namespace {

static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free &&
              std::atomic_ref<std::uint32_t>::is_always_lock_free);

/// The other side may begin with these while the rest is being copied.
constexpr std::size_t bytes_at_once = 64 << 10;

void set_call(std::uint32_t& flag) noexcept { std::atomic_ref(flag).store(1, std::memory_order_seq_cst); }
void clear_call(std::uint32_t& flag) noexcept { std::atomic_ref(flag).store(0, std::memory_order_relaxed); }

/// Most of the time the flag is down, and looking at it costs less than changing it.
bool take_call(std::uint32_t& flag) noexcept {
  const std::atomic_ref shared(flag);
  return shared.load(std::memory_order_seq_cst) != 0 && shared.exchange(0, std::memory_order_seq_cst) != 0;
}

/// What the other side has counted; none but what lies between these two is possible.
std::uint64_t seen_count(std::uint64_t& counter, std::uint64_t least, std::uint64_t most, const char* what) {
  const std::uint64_t found = std::atomic_ref(counter).load(std::memory_order_seq_cst);
  if (found < least || found > most)
    throw protocol_error(
        fmt::format("shared memory: expected {} of {} to {}, found {}", what, least, most, found));
  return found;
}

/// Moves bytes between the ring and these places as far as it goes, and looks again for what the other side
/// has done meanwhile. How many went.
template <class Left, class Copy, class Publish>
std::size_t move_parts(std::span<const iovec> parts, Left left_now, Copy copy, Publish publish) {
  std::size_t left = left_now(), total = 0, unpublished = 0;
  for (const iovec& part : parts)
    for (std::size_t done = 0; done < part.iov_len && left > 0;) {
      const std::size_t count = std::min({part.iov_len - done, left, bytes_at_once - unpublished});
      copy(static_cast<std::byte*>(part.iov_base) + done, count);
      done += count;
      total += count;
      left -= count;
      unpublished += count;
      if (unpublished == bytes_at_once) {
        publish();
        unpublished = 0;
      }
      if (left == 0) left = left_now();
    }
  if (unpublished > 0) publish();
  return total;
}

} // namespace

std::size_t ring_writer::room() {
  taken_ = seen_count(ring_.counters->taken, taken_, written_, "bytes taken");
  return ring_.data.size() - static_cast<std::size_t>(written_ - taken_);
}

std::size_t ring_writer::write(std::span<const iovec> from) {
  return move_parts(
      from, [this] { return room(); }, [this](const std::byte* at, std::size_t count) { copy(at, count); },
      [this] { publish(); });
}

void ring_writer::copy(const std::byte* from, std::size_t count) noexcept {
  const std::size_t size = ring_.data.size(), at = static_cast<std::size_t>(written_ % size);
  const std::size_t first = std::min(count, size - at);
  std::memcpy(ring_.data.data() + at, from, first);
  std::memcpy(ring_.data.data(), from + first, count - first);
  written_ += count;
}

void ring_writer::publish() noexcept {
  std::atomic_ref(ring_.counters->written).store(written_, std::memory_order_seq_cst);
}

bool ring_writer::call() {
  set_call(ring_.counters->calls_for_room);
  if (!has_room()) return false;
  clear_call(ring_.counters->calls_for_room);
  return true;
}

bool ring_writer::is_called() noexcept { return take_call(ring_.counters->calls_for_input); }

std::size_t ring_reader::input() {
  written_ = seen_count(ring_.counters->written, written_, taken_ + ring_.data.size(), "bytes written");
  return static_cast<std::size_t>(written_ - taken_);
}

std::size_t ring_reader::read(std::span<const iovec> to) {
  return move_parts(
      to, [this] { return input(); }, [this](std::byte* at, std::size_t count) { copy(at, count); },
      [this] { publish(); });
}

void ring_reader::copy(std::byte* to, std::size_t count) noexcept {
  const std::size_t size = ring_.data.size(), at = static_cast<std::size_t>(taken_ % size);
  const std::size_t first = std::min(count, size - at);
  std::memcpy(to, ring_.data.data() + at, first);
  std::memcpy(to + first, ring_.data.data(), count - first);
  taken_ += count;
}

void ring_reader::publish() noexcept {
  std::atomic_ref(ring_.counters->taken).store(taken_, std::memory_order_seq_cst);
}

bool ring_reader::call() {
  set_call(ring_.counters->calls_for_input);
  if (!has_input()) return false;
  end_call();
  return true;
}

void ring_reader::end_call() noexcept { clear_call(ring_.counters->calls_for_input); }

bool ring_reader::is_called() noexcept { return take_call(ring_.counters->calls_for_room); }

namespace {

constexpr std::size_t counter_bytes = 4 << 10; // a page
static_assert(sizeof(ring_counters) <= counter_bytes);
constexpr int needed_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::size_t region_bytes(std::size_t ring_bytes) noexcept { return 2 * (counter_bytes + ring_bytes); }

[[noreturn]] void fail_in_system(const char* what) {
  throw std::system_error(errno, std::generic_category(), fmt::format("shared memory: {}", what));
}

} // namespace

shared_region shared_region::make(std::size_t ring_bytes) {
  descriptor memory(memfd_create("mailgrad", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) fail_in_system("this system has none for two processes; use HOST:PORT");
  if (ftruncate(memory.number(), static_cast<off_t>(region_bytes(ring_bytes))) != 0 ||
      fcntl(memory.number(), F_ADD_SEALS, needed_seals) != 0)
    fail_in_system("there is no more of it");
  shared_region made(memory.number(), ring_bytes);
  made.memory_ = std::move(memory);
  return made;
}

shared_region shared_region::of_peer(int memory, std::size_t ring_bytes) {
  const int seals = fcntl(memory, F_GET_SEALS);
  if (seals < 0 || (seals & needed_seals) != needed_seals)
    throw protocol_error("shared memory: expected memory whose length is sealed, found another descriptor");
  if (ring_bytes < least_ring_bytes || ring_bytes > most_ring_bytes || ring_bytes % counter_bytes != 0)
    throw protocol_error(fmt::format("shared memory: expected rings of {} to {} bytes, found {}",
                                     least_ring_bytes, most_ring_bytes, ring_bytes));
  struct stat found {};
  if (fstat(memory, &found) != 0 || found.st_size != static_cast<off_t>(region_bytes(ring_bytes)))
    throw protocol_error(fmt::format("shared memory: expected {} bytes for two rings, found {}",
                                     region_bytes(ring_bytes), found.st_size));
  return shared_region(memory, ring_bytes);
}

shared_region::shared_region(int memory, std::size_t ring_bytes) : ring_bytes_(ring_bytes) {
  void* at = mmap(nullptr, region_bytes(ring_bytes), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (at == MAP_FAILED) fail_in_system("it cannot be mapped");
  begin_ = static_cast<std::byte*>(at);
}

shared_region::~shared_region() {
  if (begin_) munmap(begin_, region_bytes(ring_bytes_));
}

shared_region::shared_region(shared_region&& other) noexcept
    : memory_(std::move(other.memory_)), begin_(std::exchange(other.begin_, nullptr)),
      ring_bytes_(other.ring_bytes_) {}

shared_region& shared_region::operator=(shared_region&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(begin_, other.begin_);
  std::swap(ring_bytes_, other.ring_bytes_);
  return *this;
}

ring_memory shared_region::ring(std::size_t n) const noexcept {
  std::byte* const at = begin_ + n * (counter_bytes + ring_bytes_);
  return {reinterpret_cast<ring_counters*>(at), {at + counter_bytes, ring_bytes_}};
}

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
