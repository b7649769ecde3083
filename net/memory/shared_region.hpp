#pragma once

#include <mailgrad/net/descriptor.hpp>
#include <mailgrad/net/frame.hpp>

#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <memory>
#include <optional>

// Bytes from one process to another by memory that both see: one writes, one reads. Nothing that stands in
// this memory is believed: each side counts by itself, and takes from the other no more than a counter, once,
// which must fit its own. Bytes are copied out before anybody looks at them.
//
// Who finds nothing to do says so by a flag ("call") and looks once more. The other side changes its counter
// and then looks at the flag. All four are sequentially consistent, so one of the two sees the other, and no
// call is lost.

namespace mailgrad::net {

/// What stands before the bytes of a ring. Each number has a cache line of its own, since both sides write.
struct ring_counters {
  static constexpr std::size_t cache_line = 64;

  alignas(cache_line) std::uint64_t written = 0;         ///< bytes of all time; the writer's
  alignas(cache_line) std::uint64_t taken = 0;           ///< bytes of all time; the reader's
  alignas(cache_line) std::uint32_t calls_for_input = 0; ///< set by the reader, taken back by the writer
  alignas(cache_line) std::uint32_t calls_for_room = 0;  ///< set by the writer, taken back by the reader
};

/// A ring in memory: its counters, and bytes whose count is not read from there.
struct ring_memory {
  ring_counters* counters = nullptr;
  std::span<std::byte> data{};
};

/// One side of a ring: what it has counted itself, and what it saw last of the other side's count.
/// Errors  protocol_error if the other side's counter is impossible; the ring is of no use then.
/// Threads one caller at a time; the other side may be another thread or process.
class ring_side {
public:
  /// Wants to be called when the other side has moved something. Whether it already has.
  bool call();
  /// Wants it no more.
  void end_call() noexcept;
  /// Whether the other side wants to be called. True once for each of its calls.
  bool is_called() noexcept;

protected:
  /// What one side writes into the memory of both: its count, and its flag.
  struct shared_end {
    std::uint64_t* count;
    std::uint32_t* calls;
    const char* what; ///< what `count` counts, for errors
  };

  /// `free` bytes may be moved before the other side has done anything.
  ring_side(std::span<std::byte> data, std::size_t free, shared_end mine, shared_end theirs) noexcept
      : data_(data), free_(free), my_end_(mine), their_end_(theirs) {}

  /// How much may be moved now. Only counts of the other side that fit this side's own are believed.
  std::size_t movable();
  /// Moves what these places hold, or may hold, as far as it goes, and looks again for what the other side
  /// has done meanwhile. How much went.
  template <class Copy>
  std::size_t move(std::span<const iovec> parts, Copy copy);

private:
  void publish() noexcept;

  std::span<std::byte> data_;
  std::size_t free_;
  shared_end my_end_, their_end_;
  std::uint64_t mine_ = 0;
  std::uint64_t theirs_ = 0; ///< as it was last seen
};

/// The side that writes.
class ring_writer : public ring_side {
public:
  /// A ring that nothing was written to yet. Not empty.
  explicit ring_writer(ring_memory r) noexcept
      : ring_side(r.data, r.data.size(), {&r.counters->written, &r.counters->calls_for_room, "bytes written"},
                  {&r.counters->taken, &r.counters->calls_for_input, "bytes taken"}) {}

  /// Copies from these places, one after the other, as much as there is room for. How much that was.
  std::size_t write(std::span<const iovec> from);
  bool has_room() { return movable() > 0; }
};

/// The side that reads.
class ring_reader : public ring_side {
public:
  explicit ring_reader(ring_memory r) noexcept
      : ring_side(r.data, 0, {&r.counters->taken, &r.counters->calls_for_input, "bytes taken"},
                  {&r.counters->written, &r.counters->calls_for_room, "bytes written"}) {}

  /// Copies to these places, one after the other, as much as there is. How much that was.
  std::size_t read(std::span<const iovec> to);
  bool has_input() { return movable() > 0; }
};

/// The memory of one connection: a ring for each direction. It has no name anywhere, and is gone with the
/// last process that has it mapped. It is sealed, so nobody can make it shorter: reading what is no more
/// there would end this process.
/// Threads the memory is shared by design; the object belongs to one owner.
class shared_region {
public:
  static constexpr std::size_t least_ring_bytes = 4 << 10;
  static constexpr std::size_t most_ring_bytes = 16 << 20;
  /// A piece of a body fits in. More would leave the processor's cache.
  static constexpr std::size_t usual_ring_bytes = 512 << 10;

  /// None.
  shared_region() = default;
  /// New memory, all of it zero.
  /// Errors  std::system_error if there is none to be had, or this system knows no sealed memory.
  static shared_region make(std::size_t ring_bytes = usual_ring_bytes);
  /// The memory that a peer made. The descriptor may be closed after this.
  /// Errors  protocol_error if it is not sealed, or is not as long as two such rings.
  ///         std::system_error if it cannot be mapped.
  static shared_region of_peer(int memory, std::size_t ring_bytes);

  /// To be sent to the peer, of one that make() made.
  int memory() const noexcept { return memory_.number(); }
  /// The descriptor is needed no more.
  void close_descriptor() noexcept { memory_ = {}; }
  std::size_t ring_bytes() const noexcept { return ring_bytes_; }
  explicit operator bool() const noexcept { return begin_ != nullptr; }

  /// The ring in which the server writes, and the one in which the client does.
  ring_memory of_server() const noexcept { return ring(0); }
  ring_memory of_client() const noexcept { return ring(1); }

private:
  shared_region(int memory, std::size_t ring_bytes);
  ring_memory ring(std::size_t n) const noexcept;

  struct unmap {
    std::size_t bytes;
    void operator()(std::byte* begin) const noexcept { munmap(begin, bytes); }
  };

  descriptor memory_;
  std::unique_ptr<std::byte, unmap> begin_;
  std::size_t ring_bytes_ = 0;
};

// How two processes come to share memory. A client connects to a socket of the system's, and the server's
// first word is an offer, with a descriptor of the memory beside it. After that the socket carries calls:
// single bytes that wake whoever sleeps.

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
