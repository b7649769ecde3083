#pragma once

#include <mailgrad/net/session.hpp>

#include <sys/uio.h>

#include <cstddef>
#include <deque>
#include <span>

namespace mailgrad::net {

/// The frames of a connection that are on their way to the socket, gathered so that one call sends several of
/// them without a copy.
///
/// Threads that of the network.
class outbox {
public:
  /// A batch of pieces of a body is read twice, once for its checksum and once by the socket, so it is small
  /// enough to stay in a cache meanwhile.
  static constexpr std::size_t most_bytes = 512 << 10;
  static constexpr std::size_t most_frames = 64;

  bool empty() const noexcept { return frames_.empty(); }
  bool has_room() const noexcept { return frames_.size() < most_frames && bytes_ < most_bytes; }
  void push(outgoing frame);
  /// Where the unsent bytes lie, in order: the first of `parts`, two for a frame.
  std::span<const iovec> gather(std::span<iovec> parts) const;
  /// So many of these bytes have gone.
  void sent(std::size_t count);
  void clear() noexcept;

private:
  static std::size_t size_of(const outgoing& frame) { return frame.header.size() + frame.content().size(); }

  std::deque<outgoing> frames_;
  std::size_t begun_ = 0; ///< bytes of the first frame that have gone
  std::size_t bytes_ = 0; ///< of all frames
};

} // namespace mailgrad::net
