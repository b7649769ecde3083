#include <mailgrad/net/frame.hpp>

#include <mailgrad/net/ending.hpp>

#include <boost/endian/conversion.hpp>

#include <algorithm>

namespace mailgrad::net {

namespace {

template <class Number>
void append(bytes& to, Number number) {
  unsigned char stored[sizeof(Number)];
  boost::endian::endian_store<Number, sizeof(Number), boost::endian::order::little>(stored, number);
  const auto* first = reinterpret_cast<const std::byte*>(stored);
  to.insert(to.end(), first, first + sizeof(Number));
}

template <class Number>
Number number_of(byte_view from) {
  return boost::endian::endian_load<Number, sizeof(Number), boost::endian::order::little>(
      reinterpret_cast<const unsigned char*>(from.data()));
}

constexpr std::string_view magic = "mgnf";
constexpr std::size_t checked_bytes = frame_header_bytes - 4; // the last four are the header's own checksum
constexpr std::size_t kept_bytes = 4096; // a decoder that waits for the next frame holds no more

struct kind_of_frame {
  std::string_view name;
  std::size_t most_bytes; ///< of its payload
};
constexpr std::array<kind_of_frame, 12> kinds{{{"", 0},
                                               {"hello", most_greeting_bytes - frame_header_bytes},
                                               {"welcome", most_greeting_bytes - frame_header_bytes},
                                               {"refusal", most_greeting_bytes - frame_header_bytes},
                                               {"heartbeat", 1024},
                                               {"message", most_message_bytes},
                                               {"credit", 16},
                                               {"body", most_tag_bytes + 8},
                                               {"piece", most_piece_bytes},
                                               {"goodbye", 1024},
                                               {"lent", most_tag_bytes + 32},
                                               {"returned", 8}}};
static_assert(kinds.size() == static_cast<std::size_t>(frame_kind::returned) + 1);

/// What a frame of any version must be readable as.
bool outlives_versions(frame_kind k) { return k == frame_kind::hello || k == frame_kind::refusal; }

} // namespace

frame_writer& frame_writer::u8(std::uint8_t number) { return append(*to_, number), *this; }
frame_writer& frame_writer::u16(std::uint16_t number) { return append(*to_, number), *this; }
frame_writer& frame_writer::u32(std::uint32_t number) { return append(*to_, number), *this; }
frame_writer& frame_writer::u64(std::uint64_t number) { return append(*to_, number), *this; }

frame_writer& frame_writer::text(std::string_view text) {
  if (text.size() > UINT16_MAX)
    throw std::length_error(
        fmt::format("a text in a frame: expected at most {} bytes, found {}", UINT16_MAX, text.size()));
  u16(static_cast<std::uint16_t>(text.size()));
  return raw(as_bytes(text));
}

frame_writer& frame_writer::raw(byte_view data) {
  to_->insert(to_->end(), data.begin(), data.end());
  return *this;
}

std::uint8_t frame_reader::u8() { return number_of<std::uint8_t>(next(1)); }
std::uint16_t frame_reader::u16() { return number_of<std::uint16_t>(next(2)); }
std::uint32_t frame_reader::u32() { return number_of<std::uint32_t>(next(4)); }
std::uint64_t frame_reader::u64() { return number_of<std::uint64_t>(next(8)); }

std::string_view frame_reader::text() {
  const std::size_t size = u16();
  return as_text(next(size));
}

void frame_reader::end() const {
  if (left() > 0) fail(fmt::format("expected its end, found {} bytes more", left()));
}

void frame_reader::fail(std::string_view words) const {
  throw protocol_error("{}: offset {}: {}", frame_, offset_, words);
}

byte_view frame_reader::next(std::size_t count) {
  if (count > left()) fail(fmt::format("expected {} bytes, found {}", count, left()));
  const byte_view found = payload_.subspan(offset_, count);
  offset_ += count;
  return found;
}

std::string printable(std::string_view found, std::size_t longest) {
  std::string text;
  for (char c : found.substr(0, longest)) {
    if (c >= ' ' && c <= '~')
      text += c;
    else
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return found.size() > longest ? text + "..." : text;
}

std::string_view to_string(frame_kind k) noexcept { return kinds[static_cast<std::uint8_t>(k)].name; }

std::size_t most_payload_bytes(frame_kind k) noexcept {
  return kinds[static_cast<std::uint8_t>(k)].most_bytes;
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
    throw protocol_error("frame: expected '{}', found TLS: the peer has keys and this side has none", magic);
  if (!magic.starts_with(found))
    throw protocol_error("frame: expected '{}', found '{}': the peer speaks another protocol", magic,
                         printable(found));
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
    throw protocol_error("frame: expected a header with checksum {:08x}, found {:08x}: it is damaged", right,
                         found);
  if (kind == 0 || kind >= kinds.size())
    throw protocol_error("frame: expected a kind from 1 to {}, found {}", kinds.size() - 1, kind);
  h.kind = static_cast<frame_kind>(kind);
  if (h.version != protocol_version && !outlives_versions(h.kind))
    throw protocol_error("{}: expected protocol version {}, found {}: use the same build on both sides",
                         to_string(h.kind), protocol_version, h.version);
  if (reserved != 0)
    throw protocol_error("{}: expected 0 in its eighth byte, found {}", to_string(h.kind), reserved);
  if (h.length > most_payload_bytes(h.kind))
    throw protocol_error("{}: expected at most {} bytes, found {}", to_string(h.kind),
                         most_payload_bytes(h.kind), h.length);
  return h;
}

void check_payload(const frame_header& h, byte_view payload) {
  if (const std::uint32_t found = checksum_of(payload); found != h.checksum)
    throw protocol_error("{}: expected {} bytes with checksum {:08x}, found {:08x}: they are damaged",
                         to_string(h.kind), h.length, h.checksum, found);
}

header_bytes header_of(frame_header h, byte_view payload) {
  h.length = static_cast<std::uint32_t>(payload.size());
  h.checksum = checksum_of(payload);
  return encode(h);
}

bytes whole_frame(frame_header h, byte_view payload) {
  if (payload.size() > most_payload_bytes(h.kind))
    throw std::length_error(fmt::format("{}: expected at most {} bytes, found {}", to_string(h.kind),
                                        most_payload_bytes(h.kind), payload.size()));
  const header_bytes header = header_of(h, payload);
  bytes frame(header.size() + payload.size());
  std::ranges::copy(payload, std::ranges::copy(header, frame.begin()).out);
  return frame;
}

std::span<std::byte> frame_decoder::room() noexcept {
  const std::span<std::byte> all = !in_payload_     ? std::span<std::byte>{header_}
                                   : place_.empty() ? std::span<std::byte>{own_}
                                                    : place_;
  return all.subspan(count_);
}

void frame_decoder::filled(std::size_t count) {
  if (count > room().size())
    throw std::logic_error("frame_decoder: filled() was told more bytes than room() has");
  count_ += count;
  if (in_payload_) {
    if (count_ == decoded_.length) end_frame();
    return;
  }
  check_magic(byte_view{header_}.first(count_));
  if (count_ == header_.size()) begin_payload();
}

void frame_decoder::feed(byte_view data) {
  while (!data.empty()) {
    const std::span<std::byte> to = room();
    const std::size_t count = std::min(to.size(), data.size());
    std::copy_n(data.begin(), count, to.begin());
    data = data.subspan(count);
    filled(count);
  }
}

void frame_decoder::begin_payload() {
  decoded_ = decode_header(header_);
  place_ = sink_->place_of(decoded_);
  if (!place_.empty() && place_.size() != decoded_.length)
    throw std::logic_error("frame_decoder: the place of a payload has another size than its frame");
  if (place_.empty()) own_.resize(decoded_.length);
  in_payload_ = true;
  count_ = 0;
  if (decoded_.length == 0) end_frame();
}

void frame_decoder::end_frame() {
  const byte_view payload = place_.empty() ? byte_view{own_} : byte_view{place_};
  check_payload(decoded_, payload);
  sink_->take(decoded_, payload);
  if (own_.capacity() > kept_bytes) bytes{}.swap(own_);
  place_ = {};
  in_payload_ = false;
  count_ = 0;
}

} // namespace mailgrad::net
