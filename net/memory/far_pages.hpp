#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace mailgrad::net {

/// How much memory of its peers a process keeps in its own view. The system counts what two processes see to
/// each of them, so a server of many workers would seem to grow by what these lend. Beyond the bound, pages
/// that have been read leave the view, and their next reader finds them again in some microseconds.
///
/// Units   bytes.
/// Threads any.
class far_pages {
public:
  explicit far_pages(std::uint64_t most = std::uint64_t{24} << 20) noexcept : most_(most) {}

  /// A peer lends so much more, or less, at once than before.
  void grow(std::uint64_t by) noexcept { seen_ += by; }
  void shrink(std::uint64_t by) noexcept { seen_ -= by; }
  bool are_many() const noexcept { return seen_ > most_; }

private:
  const std::uint64_t most_;
  std::atomic<std::uint64_t> seen_{0};
};

} // namespace mailgrad::net
