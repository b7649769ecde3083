#pragma once

#include <mailgrad/net/session.hpp>

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace mailgrad::net {

class shared_heap;

/// A connection among those of one endpoint, numbered by the network that makes it.
struct connection_id {
  std::uint64_t value = 0;

  friend auto operator<=>(const connection_id&, const connection_id&) = default;
};

/// One side of a network: what a network tells about its connections, and asks to send. The server has one
/// for all its peers, a client has one for itself. Neither knows which network it is.
///
/// Threads that of the network.
class endpoint {
public:
  virtual ~endpoint() = default;

  /// A connection stands. `from` says to people who is at its other end, such as "10.0.0.3:51234".
  virtual void opened(connection_id c, std::string_view from, instant now) = 0;
  /// Whether the connection shall be read now. If not, what its peer has sent stays with the peer, and the
  /// network asks again when it has done some work for this endpoint.
  virtual bool reads([[maybe_unused]] connection_id c, [[maybe_unused]] instant now) { return true; }
  /// Whether reads() may hold of any connection that was not read for want of room.
  virtual bool reads_others() { return true; }
  /// Whether what comes behind place() may be read with it, which may be a body that has no room yet.
  virtual bool reads_behind([[maybe_unused]] connection_id c) { return true; }
  virtual void received(connection_id c, byte_view data, instant now) = 0;
  /// Where the next bytes of a body belong, to be told by filled(); empty if something else comes next.
  virtual std::span<std::byte> place(connection_id c) = 0;
  virtual void filled(connection_id c, std::size_t count, instant now) = 0;
  /// The connection closed, or could not be made. The endpoint has no more to do with it.
  virtual void closed(connection_id c, std::string_view words, instant now) = 0;

  virtual std::optional<outgoing> next(connection_id c, instant now) = 0;
  /// Whether its session has ended, so that a last word is all that may still be said.
  virtual bool has_ended(connection_id c) const = 0;
  /// Whether there is nothing more to say or to hear: the network closes the connection when all has been
  /// sent.
  virtual bool is_through(connection_id c) const = 0;

  /// On this connection bytes can be lent, which some networks tell right after opened().
  virtual void shares(connection_id c, std::shared_ptr<common_memory> memory) = 0;
  /// Where bodies lie that are to be lent where the network allows it; null: none are.
  void lend_from(std::shared_ptr<shared_heap> heap) noexcept { heap_ = std::move(heap); }
  const std::shared_ptr<shared_heap>& heap() const noexcept { return heap_; }

  virtual void tick(instant now) = 0;
  /// When tick() must be called at the latest.
  virtual instant deadline() const = 0;

private:
  std::shared_ptr<shared_heap> heap_;
};

} // namespace mailgrad::net
