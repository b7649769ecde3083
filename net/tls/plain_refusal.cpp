#include <mailgrad/net/tls/plain_refusal.hpp>

#include <mailgrad/net/ending.hpp>

#include <fmt/format.h>

namespace mailgrad::net {

std::span<std::byte> plain_refusal::place_of(const frame_header& h) {
  if (h.kind != frame_kind::refusal || said_)
    throw protocol_error(fmt::format("frame: expected one refusal, found a {}", to_string(h.kind)));
  return {};
}

void plain_refusal::take(const frame_header&, byte_view payload) { said_ = decode_refusal(payload); }

} // namespace mailgrad::net
