#pragma once

#include <mailgrad/net/frame_decoder.hpp>
#include <mailgrad/net/hello.hpp>

#include <optional>

namespace mailgrad::net {

/// A connection of which nothing is known yet: it may say one hello of at most 4 KiB within its time, and
/// gets no memory for anything else.
///
/// Threads one caller at a time.
class arrival final : frame_sink {
public:
  explicit arrival(instant late_at) : decoder_(*this), late_at_(late_at) {}
  arrival(const arrival&) = delete;
  arrival& operator=(const arrival&) = delete;

  /// Takes bytes up to the end of the hello and returns how many. Those behind it belong to whoever takes the
  /// peer in.
  /// Errors  protocol_error if they are no hello.
  std::size_t receive(byte_view data);
  /// What it said; none while the hello is not whole.
  const std::optional<hello>& said() const noexcept { return said_; }
  instant late_at() const noexcept { return late_at_; }
  /// It gets so much more time.
  void excuse(instant span) noexcept { late_at_ += span; }

private:
  std::span<std::byte> place_of(const frame_header& h) override;
  void take(const frame_header& h, byte_view payload) override;

  frame_decoder decoder_;
  instant late_at_;
  std::optional<hello> said_;
};

} // namespace mailgrad::net
