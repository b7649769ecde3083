#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// A frame is what travels between two processes: a header of 44 bytes and a payload. docs/frames.md shows
// both.

namespace mailgrad::net {

using bytes = std::vector<std::byte>;
using byte_view = std::span<const std::byte>;

/// Appends the fields of a frame: whole numbers in little endian, and texts behind their length.
class frame_writer {
public:
  /// Into bytes of its own, for take().
  frame_writer() = default;
  explicit frame_writer(bytes& to) : to_(&to) {}
  frame_writer(const frame_writer&) = delete;
  frame_writer& operator=(const frame_writer&) = delete;

  frame_writer& u8(std::uint8_t number);
  frame_writer& u16(std::uint16_t number);
  frame_writer& u32(std::uint32_t number);
  frame_writer& u64(std::uint64_t number);
  /// A length as u16, then the bytes of the text.
  /// Errors  std::length_error if it has more than 65535 bytes.
  frame_writer& text(std::string_view text);
  /// The bytes alone, so the reader must know how many they are.
  frame_writer& raw(byte_view data);
  /// Of a writer into bytes of its own: all of them. It is empty then.
  bytes take() { return std::move(own_); }

private:
  bytes own_;
  bytes* to_ = &own_;
};

/// Reads what a frame_writer has written, and trusts nothing: each read checks how many bytes are left.
/// Errors  protocol_error that names the frame, the offset in its payload, what was expected and what was
///         found.
class frame_reader {
public:
  /// `frame` names it in errors: "hello". Both must outlive the reader.
  frame_reader(std::string_view frame, byte_view payload) : frame_(frame), payload_(payload) {}

  std::uint8_t u8();
  std::uint16_t u16();
  std::uint32_t u32();
  std::uint64_t u64();
  /// A view into the payload.
  std::string_view text();
  /// All bytes that are left.
  byte_view rest() noexcept { return payload_.subspan(std::exchange(offset_, payload_.size())); }
  std::size_t left() const noexcept { return payload_.size() - offset_; }
  /// Errors  protocol_error if bytes are left.
  void end() const;
  /// A protocol_error at this place: "hello: offset 4: WORDS"
  [[noreturn]] void fail(std::string_view words) const;

private:
  byte_view next(std::size_t count);

  std::string_view frame_;
  byte_view payload_;
  std::size_t offset_ = 0;
};

inline byte_view as_bytes(std::string_view text) noexcept { return std::as_bytes(std::span{text}); }
inline std::string_view as_text(byte_view data) noexcept {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

/// What others said, for one line of a message: control characters escaped, and cut if it is long.
std::string printable(std::string_view found, std::size_t longest = 256);

/// The version of the protocol that this build speaks. It rises with every change of a frame, of a message,
/// or of the terms of a worker or a shard.
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
/// Errors  protocol_error.
frame_header decode_header(std::span<const std::byte, frame_header_bytes> from);

/// Whether these first bytes of a header, however few, may become one.
/// Errors  protocol_error that quotes them.
void check_magic(byte_view first);

/// Errors  protocol_error if the payload is not the one that the header was made for.
void check_payload(const frame_header& h, byte_view payload);
/// The header with the length and the checksum of this payload, which its kind must allow.
header_bytes header_of(frame_header h, byte_view payload);

/// The same with the payload behind it.
/// Errors  std::length_error if the payload is larger than its kind allows.
bytes whole_frame(frame_header h, byte_view payload);

/// The low half of XXH3-64 with seed 0, which keeps pace with memory. It finds damage by chance, not by
/// intent.
std::uint32_t checksum_of(byte_view data) noexcept;

/// Who a frame_decoder hands frames to.
/// Errors  either function may throw protocol_error; the decoder is of no use then.
class frame_sink {
public:
  virtual ~frame_sink() = default;

  /// Asked when a header is whole and right, before any memory is taken for its payload. The answer is where
  /// the payload shall go, as long as the header says; an empty span: into memory of the decoder.
  virtual std::span<std::byte> place_of(const frame_header& h) = 0;
  /// A frame is whole and its checksum right. The payload is valid until the call returns.
  virtual void take(const frame_header& h, byte_view payload) = 0;
};

/// Finds frames in a stream of bytes that arrives in any cuts, and takes no more memory than one frame needs.
///
/// Bytes are written to room() and then told by filled(), so a body can be received where it shall lie.
/// feed() copies bytes that lie elsewhere.
/// Errors  protocol_error at the first byte that can be no frame. The decoder takes nothing more after that.
/// Threads one caller at a time.
class frame_decoder {
public:
  explicit frame_decoder(frame_sink& sink) : sink_(&sink) {}

  /// Where the next bytes belong; never empty.
  std::span<std::byte> room() noexcept;
  /// The first `count` bytes of room() have been written.
  void filled(std::size_t count);
  void feed(byte_view data);

  /// Whether room() lies in memory that the sink named, so that reading into it saves a copy.
  bool is_placed() const noexcept { return in_payload_ && !place_.empty(); }
  /// Whether a frame has begun and is not whole.
  bool in_frame() const noexcept { return in_payload_ || count_ > 0; }
  /// Memory of the decoder's own, in bytes.
  std::size_t memory_bytes() const noexcept { return header_.size() + own_.capacity(); }

private:
  void begin_payload();
  void end_frame();

  frame_sink* sink_;
  header_bytes header_{};
  frame_header decoded_;
  bytes own_;                  ///< of a payload that has no place elsewhere
  std::span<std::byte> place_; ///< of the payload, if the sink named one
  std::size_t count_ = 0;      ///< bytes of the header or the payload that have arrived
  bool in_payload_ = false;
};

} // namespace mailgrad::net
