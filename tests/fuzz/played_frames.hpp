#pragma once

#include <mailgrad/tests/fuzz/fuzz_input.hpp>

#include <mailgrad/net/frame.hpp>

#include <algorithm>
#include <cstdint>

namespace mailgrad::fuzz {

/// Makes frames of an input. A fuzzer finds no checksum by chance, so each frame gets the right one, unless
/// the input wants a bit of it flipped.
class played_frames {
public:
  /// The next frame, which may be damaged. What the input does not choose is as `usual`.
  ///
  ///     kind: u8  changes: u8  length: u16  payload
  net::bytes next(fuzz_input& in, net::frame_header usual) {
    const std::uint8_t kind = in.u8();
    const std::uint8_t changes = in.u8();
    usual.kind = static_cast<net::frame_kind>(kind % 10); // 0 is none
    if (changes & 1) usual.sequence += static_cast<std::uint64_t>(in.u8()) - 8;
    if (changes & 2) usual.run = in.u8();
    if (changes & 4) usual.session = in.u8();
    if (changes & 8) usual.version = in.u8();
    const std::span<const std::byte> payload = in.take(in.u16());
    const std::size_t most = net::most_payload_bytes(usual.kind);
    usual.length = static_cast<std::uint32_t>(payload.size());
    usual.checksum = net::checksum_of(payload);
    net::bytes frame;
    const net::header_bytes header = net::encode(usual);
    frame.insert(frame.end(), header.begin(), header.end());
    frame.insert(frame.end(), payload.begin(), payload.end());
    if (changes & 16) frame[in.u16() % frame.size()] ^= std::byte{1};
    is_right_ = (changes & 24) == 0 && kind % 10 != 0 && payload.size() <= most;
    return frame;
  }
  /// Whether a decoder must take the last frame, if its sequence is of no concern.
  bool is_right() const noexcept { return is_right_; }

private:
  bool is_right_ = false;
};

} // namespace mailgrad::fuzz
