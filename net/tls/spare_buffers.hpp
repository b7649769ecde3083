#pragma once

#include <mailgrad/net/frame_fields.hpp>

#include <utility>
#include <vector>

namespace mailgrad::net {

/// Buffers that connections use by turns, so that memory does not grow with those that have nothing in
/// theirs.
///
/// Threads one caller at a time.
class spare_buffers {
public:
  /// An empty one, which may have room already.
  bytes take() {
    if (spare_.empty()) return {};
    bytes b = std::move(spare_.back());
    spare_.pop_back();
    return b;
  }
  void give(bytes b) {
    if (b.capacity() > 0 && spare_.size() < most_kept) spare_.push_back(std::move(b));
  }

private:
  static constexpr std::size_t most_kept = 4;

  std::vector<bytes> spare_;
};

/// Those of the connections of one side of a network.
struct tls_buffers {
  spare_buffers ahead; ///< of bytes that were read, all of one size
  spare_buffers out;   ///< of bytes that are to be sent
};

} // namespace mailgrad::net
