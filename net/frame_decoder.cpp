#include <mailgrad/net/frame_decoder.hpp>

#include <mailgrad/net/ending.hpp>

#include <algorithm>
#include <stdexcept>

namespace mailgrad::net {

namespace {

constexpr std::size_t kept_bytes = 4096; // a decoder that waits for the next frame holds no more

} // namespace

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
