#pragma once

#include <mailgrad/net/admission.hpp>
#include <mailgrad/net/frame.hpp>

#include <optional>

namespace mailgrad::net {

/// Bytes in a block of memory that the peer can read, so that they need not be moved.
/// Units   bytes; `block` counts from the begin of that memory, `begin` from the begin of the block.
struct loan {
  std::uint64_t block = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;

  friend bool operator==(const loan&, const loan&) = default;
};

/// The same, as the lender has it: it counts as lent as long as the units are held.
struct lending {
  loan what;
  admission::units units;
};

/// The same, where the peer reads them. They do not change before they are given back.
struct borrowed {
  byte_view block; ///< the whole one; a whole cache line behind it may be read
  byte_view bytes; ///< the part of it that is meant
  std::shared_ptr<const void> keeps;
};

/// Memory of two processes of which each can read what the other one lends.
/// Threads that of the network.
class common_memory {
public:
  virtual ~common_memory() = default;

  /// Lends bytes of this process; none, if they lie elsewhere or too much is lent already.
  virtual std::optional<lending> lend(byte_view bytes) = 0;
  /// The session is over and the peer may still read it. `keeps` is held until that does no harm.
  virtual void abandon(lending l, std::shared_ptr<const void> keeps) = 0;
  /// Bytes that the peer lends.
  /// Errors  protocol_error if there are none such, or they cannot be mapped.
  virtual borrowed borrow(const loan& l) = 0;
};

} // namespace mailgrad::net
