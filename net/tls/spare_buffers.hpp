#pragma once

#include <mailgrad/net/frame_fields.hpp>

#include <utility>
#include <vector>

namespace mailgrad::net {

/// Buffers that connections use by turns, so that memory does not grow with those that have nothing in
/// theirs. There are a few of them; while all are lent, other connections do with less.
///
/// Threads one caller at a time.
class spare_buffers {
public:
  static constexpr std::size_t most_lent = 8;

  /// Whether there is another one.
  bool any() const noexcept { return lent_ < most_lent; }
  std::size_t lent() const noexcept { return lent_; }
  /// An empty one, which may have room already.
  bytes take() {
    ++lent_;
    if (spare_.empty()) return {};
    bytes b = std::move(spare_.back());
    spare_.pop_back();
    return b;
  }
  /// One that was taken comes back.
  void give(bytes b) {
    --lent_;
    b.clear();
    if (b.capacity() > 0 && spare_.size() < most_kept) spare_.push_back(std::move(b));
  }

private:
  static constexpr std::size_t most_kept = 4;

  std::vector<bytes> spare_;
  std::size_t lent_ = 0;
};

/// Those of the connections of one side of a network.
struct tls_buffers {
  spare_buffers ahead; ///< of bytes that were read, all of one size
  spare_buffers out;   ///< of bytes that are to be sent
  bytes small;         ///< for parts that go as one record, within one call
};

} // namespace mailgrad::net
