#include <mailgrad/net/arrival.hpp>

#include <mailgrad/net/ending.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mailgrad::net {

std::size_t arrival::receive(byte_view data) {
  std::size_t taken = 0;
  while (!said_ && taken < data.size()) {
    const std::span<std::byte> to = decoder_.room();
    const byte_view now = data.subspan(taken, std::min(to.size(), data.size() - taken));
    std::copy(now.begin(), now.end(), to.begin());
    taken += now.size();
    decoder_.filled(now.size());
  }
  return taken;
}

std::span<std::byte> arrival::place_of(const frame_header& h) {
  if (h.kind != frame_kind::hello || h.sequence != 0)
    throw protocol_error(fmt::format("frame: expected a hello as frame 0, found a {} as frame {}",
                                     to_string(h.kind), h.sequence));
  return {};
}

void arrival::take(const frame_header& h, byte_view payload) {
  hello said = to_hello(decode_features("hello", payload));
  // The header says it first, and a peer must not say two things.
  said.says.insert_or_assign(std::string(feature::protocol), std::to_string(h.version));
  said_ = std::move(said);
}

} // namespace mailgrad::net
