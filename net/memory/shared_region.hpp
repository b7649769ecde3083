#pragma once

#include <mailgrad/net/descriptor.hpp>
#include <mailgrad/net/memory/byte_ring.hpp>

#include <cstddef>

namespace mailgrad::net {

/// The memory of one connection: a ring for each direction. It has no name anywhere, and is gone with the
/// last process that has it mapped. It is sealed, so nobody can make it shorter: reading what is no more
/// there would end this process.
///
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
  ///
  /// Errors  std::system_error if there is none to be had, or this system knows no sealed memory.
  static shared_region make(std::size_t ring_bytes = usual_ring_bytes);
  /// The memory that a peer made. The descriptor may be closed after this.
  ///
  /// Errors  protocol_error if it is not sealed, or is not as long as two such rings.
  ///         std::system_error if it cannot be mapped.
  static shared_region of_peer(int memory, std::size_t ring_bytes);

  ~shared_region();
  shared_region(shared_region&& other) noexcept;
  shared_region& operator=(shared_region&& other) noexcept;

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

  descriptor memory_;
  std::byte* begin_ = nullptr;
  std::size_t ring_bytes_ = 0;
};

} // namespace mailgrad::net
