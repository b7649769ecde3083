#pragma once

#include <mailgrad/net/frame.hpp>

#include <cstddef>
#include <span>

namespace mailgrad::net {

/// Who a frame_decoder hands frames to.
///
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
  /// Takes bytes from elsewhere, all of them.
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
