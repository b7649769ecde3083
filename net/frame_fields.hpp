#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad::net {

/// Bytes that a frame carries.
using bytes = std::vector<std::byte>;
using byte_view = std::span<const std::byte>;

/// Appends the fields of a frame: whole numbers in little endian, and texts behind their length.
class frame_writer {
public:
  explicit frame_writer(bytes& to) : to_(&to) {}

  frame_writer& u8(std::uint8_t number);
  frame_writer& u16(std::uint16_t number);
  frame_writer& u32(std::uint32_t number);
  frame_writer& u64(std::uint64_t number);
  /// A length as u16, then the bytes of the text.
  /// Errors  std::length_error if it has more than 65535 bytes.
  frame_writer& text(std::string_view text);
  /// The bytes alone, so the reader must know how many they are.
  frame_writer& raw(byte_view data);

private:
  bytes* to_;
};

/// Reads what a frame_writer has written, and trusts nothing: each read checks how many bytes are left.
///
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
  byte_view rest() noexcept;
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

} // namespace mailgrad::net
