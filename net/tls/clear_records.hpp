#pragma once

#include <mailgrad/net/frame_fields.hpp>

#include <array>
#include <cstddef>

namespace mailgrad::net {

/// The longest message of a greeting. OpenSSL makes room for 128 KiB as soon as a stranger says that it sends
/// as much.
constexpr std::size_t most_greeting_message = 16 << 10;

/// Follows what a peer sends before there is a cipher: records of TLS, of which some bring messages of the
/// greeting, each with its length in front (RFC 8446, sections 4 and 5.1).
class clear_records {
public:
  /// More has come. False if a message is longer than most_greeting_message. Nothing is looked at behind the
  /// first record that is encrypted.
  bool follow(byte_view next);

private:
  std::array<std::byte, 5> record_{};                ///< kind, version, length
  std::array<std::byte, 4> message_{};               ///< kind, length
  std::size_t record_bytes_ = 0, message_bytes_ = 0; ///< of these that have come
  std::size_t record_left_ = 0, message_left_ = 0;   ///< that are to come behind them
  bool has_cipher_ = false;
};

} // namespace mailgrad::net
