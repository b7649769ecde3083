#include <mailgrad/net/frame.hpp>

#include <mailgrad/net/ending.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace mailgrad::net {

namespace {

constexpr std::string_view magic = "mgnf";
constexpr std::size_t checked_bytes = frame_header_bytes - 4; // the last four are the header's own checksum

constexpr std::array<std::string_view, 12> kind_names{"",          "hello",   "welcome", "refusal",
                                                      "heartbeat", "message", "credit",  "body",
                                                      "piece",     "goodbye", "lent",    "returned"};

/// What a frame of any version must be readable as.
bool outlives_versions(frame_kind k) { return k == frame_kind::hello || k == frame_kind::refusal; }

} // namespace

std::string_view to_string(frame_kind k) noexcept { return kind_names[static_cast<std::uint8_t>(k)]; }

std::size_t most_payload_bytes(frame_kind k) noexcept {
  switch (k) {
  case frame_kind::hello:
  case frame_kind::welcome:
  case frame_kind::refusal:
    return most_greeting_bytes - frame_header_bytes;
  case frame_kind::message:
    return most_message_bytes;
  case frame_kind::credit:
    return 16;
  case frame_kind::body:
    return most_tag_bytes + 8;
  case frame_kind::lent:
    return most_tag_bytes + 32;
  case frame_kind::returned:
    return 8;
  case frame_kind::piece:
    return most_piece_bytes;
  case frame_kind::heartbeat:
  case frame_kind::goodbye:
    return 1024;
  }
  return 0;
}

header_bytes encode(const frame_header& h) {
  bytes written;
  written.reserve(frame_header_bytes);
  frame_writer to{written};
  to.raw(as_bytes(magic)).u16(h.version).u8(static_cast<std::uint8_t>(h.kind)).u8(0);
  to.u64(h.run).u64(h.session).u64(h.sequence).u32(h.length).u32(h.checksum);
  to.u32(checksum_of(written));
  header_bytes header;
  std::copy(written.begin(), written.end(), header.begin());
  return header;
}

void check_magic(byte_view first) {
  const std::string_view found = as_text(first.first(std::min(first.size(), magic.size())));
  constexpr char begin_of_tls = 22;
  if (!found.empty() && found.front() == begin_of_tls)
    throw protocol_error(
        fmt::format("frame: expected '{}', found TLS: the peer has keys and this side has none", magic));
  if (!magic.starts_with(found))
    throw protocol_error(fmt::format("frame: expected '{}', found '{}': the peer speaks another protocol",
                                     magic, printable(found)));
}

frame_header decode_header(std::span<const std::byte, frame_header_bytes> from) {
  check_magic(from);
  frame_reader reader{"frame", from};
  reader.u32();
  frame_header h;
  h.version = reader.u16();
  const std::uint8_t kind = reader.u8();
  const std::uint8_t reserved = reader.u8();
  h.run = reader.u64();
  h.session = reader.u64();
  h.sequence = reader.u64();
  h.length = reader.u32();
  h.checksum = reader.u32();
  if (const std::uint32_t right = checksum_of(from.first(checked_bytes)), found = reader.u32();
      found != right)
    throw protocol_error(fmt::format(
        "frame: expected a header with checksum {:08x}, found {:08x}: it is damaged", right, found));
  if (kind == 0 || kind >= kind_names.size())
    throw protocol_error(
        fmt::format("frame: expected a kind from 1 to {}, found {}", kind_names.size() - 1, kind));
  h.kind = static_cast<frame_kind>(kind);
  if (h.version != protocol_version && !outlives_versions(h.kind))
    throw protocol_error(
        fmt::format("{}: expected protocol version {}, found {}: use the same build on both sides",
                    to_string(h.kind), protocol_version, h.version));
  if (reserved != 0)
    throw protocol_error(
        fmt::format("{}: expected 0 in its eighth byte, found {}", to_string(h.kind), reserved));
  if (h.length > most_payload_bytes(h.kind))
    throw protocol_error(fmt::format("{}: expected at most {} bytes, found {}", to_string(h.kind),
                                     most_payload_bytes(h.kind), h.length));
  return h;
}

void check_payload(const frame_header& h, byte_view payload) {
  if (const std::uint32_t found = checksum_of(payload); found != h.checksum)
    throw protocol_error(
        fmt::format("{}: expected {} bytes with checksum {:08x}, found {:08x}: they are damaged",
                    to_string(h.kind), h.length, h.checksum, found));
}

bytes whole_frame(frame_header h, byte_view payload) {
  if (payload.size() > most_payload_bytes(h.kind))
    throw std::length_error(fmt::format("{}: expected at most {} bytes, found {}", to_string(h.kind),
                                        most_payload_bytes(h.kind), payload.size()));
  h.length = static_cast<std::uint32_t>(payload.size());
  h.checksum = checksum_of(payload);
  const header_bytes header = encode(h);
  bytes frame;
  frame.reserve(header.size() + payload.size());
  frame.insert(frame.end(), header.begin(), header.end());
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

} // namespace mailgrad::net
