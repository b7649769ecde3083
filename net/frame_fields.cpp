#include <mailgrad/net/frame_fields.hpp>

#include <mailgrad/net/ending.hpp>

#include <boost/endian/conversion.hpp>
#include <fmt/format.h>

#include <stdexcept>

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

byte_view frame_reader::rest() noexcept {
  const byte_view rest = payload_.subspan(offset_);
  offset_ = payload_.size();
  return rest;
}

void frame_reader::end() const {
  if (left() > 0) fail(fmt::format("expected its end, found {} bytes more", left()));
}

void frame_reader::fail(std::string_view words) const {
  throw protocol_error(fmt::format("{}: offset {}: {}", frame_, offset_, words));
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

} // namespace mailgrad::net
