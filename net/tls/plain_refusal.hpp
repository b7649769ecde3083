#pragma once

#include <mailgrad/net/frame_decoder.hpp>
#include <mailgrad/net/hello.hpp>

#include <optional>

namespace mailgrad::net {

/// Reads the refusal that a server sends without a cipher to a peer that has other keys. Nobody vouches for
/// it: it serves for words, of a connection that has failed anyway.
class plain_refusal final : frame_sink {
public:
  plain_refusal() : decoder_(*this) {}

  /// Takes bytes up to its end.
  /// Errors  protocol_error if they are none.
  void feed(byte_view data) { decoder_.feed(data); }
  const std::optional<refusal>& said() const noexcept { return said_; }

private:
  std::span<std::byte> place_of(const frame_header& h) override;
  void take(const frame_header& h, byte_view payload) override;

  frame_decoder decoder_;
  std::optional<refusal> said_;
};

} // namespace mailgrad::net
