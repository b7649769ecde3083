#pragma once

#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/hello.hpp>
#include <mailgrad/net/loan.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

namespace mailgrad::net {

/// How far a process has come, in its own words. A heartbeat carries it, so that one which lives and does not
/// get on can be told from one that works.
struct progress {
  std::uint64_t step = 0;
  std::string waits_for; ///< empty if it works; "worker 1 at the barrier of step 17"

  friend bool operator==(const progress&, const progress&) = default;
};

/// What the layers above a session are told.
///
/// Errors  message_came(), place_of_body(), body_came() and body_lent() may throw, which ends the session:
///         protocol_error if the peer is wrong, and anything else if this process fails.
/// Threads that of the session.
class session_events {
public:
  virtual ~session_events() = default;

  /// Both connections stand, and the terms are those of the server.
  virtual void joined(const welcome& terms) = 0;
  /// A message, valid until the call returns. session::allow() gives its credit back.
  virtual void message_came(byte_view message) = 0;
  /// A body begins: where shall its bytes go? Exactly `size` of them, into memory that stays until
  /// body_came() or ended(). `size` is at most what the welcome allows; 0 bytes have any place.
  virtual std::span<std::byte> place_of_body(byte_view tag, std::uint64_t size) = 0;
  /// The body is whole, and every checksum was right. session::allow() gives its credit back.
  virtual void body_came(byte_view tag) = 0;
  /// The same for a body that stays where it lies, in memory of the peer. True: it is kept, and
  /// session::give_back() must be told its number when it is needed no more. Here it is copied.
  ///
  /// Errors  as place_of_body().
  virtual bool body_lent(byte_view tag, const borrowed& body, [[maybe_unused]] std::uint64_t number) {
    std::ranges::copy(body.bytes, place_of_body(tag, body.bytes.size()).begin());
    body_came(tag);
    return false;
  }
  /// A heartbeat said something else than the one before.
  virtual void progress_told([[maybe_unused]] const progress& p) {}
  /// Bodies of the peer are not read from now on for want of room, or are read again.
  virtual void held([[maybe_unused]] bool is_held) {}
  /// There is credit again, after a send that was refused.
  virtual void credit_came() = 0;
  /// The last event. What has not arrived whole never will.
  virtual void ended(const ending& why) = 0;
};

} // namespace mailgrad::net
