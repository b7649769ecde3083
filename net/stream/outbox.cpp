#include <mailgrad/net/stream/outbox.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad::net {

void outbox::push(outgoing frame) {
  bytes_ += size_of(frame);
  frames_.push_back(std::move(frame));
}

std::span<const iovec> outbox::gather(std::span<iovec> parts) const {
  std::size_t count = 0, skip = begun_;
  for (const outgoing& frame : frames_)
    for (byte_view part : {byte_view{frame.header}, frame.content()}) {
      const std::size_t gone = std::min(skip, part.size());
      skip -= gone;
      part = part.subspan(gone);
      if (part.empty()) continue;
      if (count == parts.size()) return parts;
      parts[count++] = {const_cast<std::byte*>(part.data()), part.size()}; // one struct for both ways
    }
  return parts.first(count);
}

void outbox::sent(std::size_t count) {
  begun_ += count;
  while (!frames_.empty() && begun_ >= size_of(frames_.front())) {
    begun_ -= size_of(frames_.front());
    bytes_ -= size_of(frames_.front());
    frames_.pop_front();
  }
}

void outbox::clear() noexcept {
  frames_.clear();
  begun_ = bytes_ = 0;
}

} // namespace mailgrad::net
