#pragma once

#include <mailgrad/net/frame_fields.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// A frame is what travels between two processes: a header of 44 bytes and a payload. docs/wire_format.md
// shows both byte by byte.

namespace mailgrad::net {

/// The version of the protocol that this build speaks. It rises with every change of a frame, of a letter, or
/// of the terms of a worker or a shard.
inline constexpr std::uint16_t protocol_version = 5;

/// The numbers stand on the wire, so none is ever given away again.
enum class frame_kind : std::uint8_t {
  hello = 1,     ///< the first frame of a connection, from who connects: who it is
  welcome = 2,   ///< the answer of a server that takes it in
  refusal = 3,   ///< the answer of a server that does not
  heartbeat = 4, ///< a sign of life, with the progress of the sender
  message = 5,   ///< bytes for the layers above; control connection alone
  credit = 6,    ///< how many messages and bodies the receiver has room for
  body = 7,      ///< begins a body, such as a gradient; bulk connection alone
  piece = 8,     ///< the next bytes of a body
  goodbye = 9,   ///< the last frame: why the session ends
  lent = 10, ///< a body that stays where it lies, in memory that both processes see; bulk connection alone
  returned = 11, ///< the receiver of a lent body needs it no more; bulk connection alone
};

/// "hello"
std::string_view to_string(frame_kind k) noexcept;

inline constexpr std::size_t frame_header_bytes = 44;
/// A whole frame before both sides know each other, header included.
inline constexpr std::size_t most_greeting_bytes = 4096;
inline constexpr std::size_t most_message_bytes = 64 << 10;
inline constexpr std::size_t most_piece_bytes = 256 << 10;
/// What the layers above may say about a body at its begin.
inline constexpr std::size_t most_tag_bytes = 1024;

/// The largest payload that a frame of this kind may have.
std::size_t most_payload_bytes(frame_kind k) noexcept;

/// Units   sequence counts the frames of one direction of one connection, from 0.
struct frame_header {
  std::uint16_t version = protocol_version;
  frame_kind kind = frame_kind::heartbeat;
  std::uint64_t run = 0;     ///< 0 in a greeting whose sender does not know it yet
  std::uint64_t session = 0; ///< drawn by the server for each incarnation of a member; 0 before the welcome
  std::uint64_t sequence = 0;
  std::uint32_t length = 0;   ///< of the payload, in bytes
  std::uint32_t checksum = 0; ///< of the payload

  friend bool operator==(const frame_header&, const frame_header&) = default;
};

using header_bytes = std::array<std::byte, frame_header_bytes>;

header_bytes encode(const frame_header& h);

/// Reads a header and checks magic, its own checksum, version, kind and length, in this order. Hello and
/// refusal are read in every version, so that two builds can tell each other which one they speak.
///
/// Errors  protocol_error.
frame_header decode_header(std::span<const std::byte, frame_header_bytes> from);

/// Whether these first bytes of a header, however few, may become one.
///
/// Errors  protocol_error that quotes them.
void check_magic(byte_view first);

/// Errors  protocol_error if the payload is not the one that the header was made for.
void check_payload(const frame_header& h, byte_view payload);

/// A whole frame; sets length and checksum of the header.
/// Errors  std::length_error if the payload is larger than its kind allows.
bytes whole_frame(frame_header h, byte_view payload);

/// The low half of XXH3-64 with seed 0, which keeps pace with memory, as a CRC does not.
///
/// It finds damage by chance, not by intent.
std::uint32_t checksum_of(byte_view data) noexcept;

} // namespace mailgrad::net
