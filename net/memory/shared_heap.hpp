#pragma once

#include <mailgrad/net/descriptor.hpp>
#include <mailgrad/net/loan.hpp>
#include <mailgrad/tensor/block.hpp>

#include <atomic>
#include <chrono>

namespace mailgrad::net {

/// How much memory of its peers a process keeps in its own view. The system counts what two processes see to
/// each of them, so a server of many workers would seem to grow by what these lend. Beyond the bound, pages
/// that have been read leave the view, and their next reader finds them again in some microseconds.
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

struct heap_options {
  /// How many bytes may be lent at once, counting each block once; others are moved. One block may always be
  /// lent, however large, and another one beside it.
  std::size_t most_lent = std::size_t{64} << 20;
  /// For how long what was lent when a session ended stays as it is; none: as long as the heap. A process
  /// that was cut off knows it by then, or is known to all others as lost.
  std::optional<std::chrono::milliseconds> kept = std::chrono::milliseconds(3'000);
};

/// Memory of this process from which blocks come that other processes of this machine can read. It has no
/// name anywhere, grows as it must, and is sealed, so nobody can make it shorter.
/// Guarantees  a block that was lent keeps its content in the other process, also when this one has ended.
///             A heap gives no memory back before all of its blocks are gone.
/// Errors  std::bad_alloc, std::system_error.
/// Threads any.
class shared_heap {
public:
  /// Errors  std::system_error if this system knows no sealed memory. std::invalid_argument for a negative
  ///         time.
  explicit shared_heap(const heap_options& options = {});
  ~shared_heap();
  shared_heap(const shared_heap&) = delete;
  shared_heap& operator=(const shared_heap&) = delete;

  /// A zeroed block.
  block allocate(std::size_t size);

  /// For peers, which can read the memory and not write it.
  int memory() const noexcept;

  std::optional<lending> lend(byte_view part);
  /// Keeps it for a while. What has been kept for long enough is let go by any later call of this and of
  /// lend().
  void abandon(lending l, std::shared_ptr<const void> keeps);

private:
  class pages;
  class loans;
  struct abandoned {
    std::chrono::steady_clock::time_point until;
    std::shared_ptr<const void> keeps;
    lending what; ///< ends before its memory may be lent again
  };

  void let_go_of_overdue();

  const heap_options options_;
  const std::shared_ptr<pages> pages_; ///< which blocks hold as well
  const std::shared_ptr<loans> loans_;
  std::mutex mutex_; ///< guards the member below
  std::vector<abandoned> abandoned_;
};

/// The heap of a peer, to be read. Each block is checked before it is looked at.
/// Threads one owner; what it gives out: any.
class far_heap {
public:
  /// Errors  protocol_error if the memory is not sealed against becoming shorter.
  explicit far_heap(descriptor memory, std::shared_ptr<far_pages> pages = std::make_shared<far_pages>());
  ~far_heap() { pages_->shrink(largest_); }
  far_heap(const far_heap&) = delete;
  far_heap& operator=(const far_heap&) = delete;

  /// Errors  protocol_error if the loan lies outside of the memory. std::system_error if it cannot be mapped.
  borrowed view(const loan& l);

private:
  descriptor memory_;
  std::shared_ptr<far_pages> pages_;
  std::uint64_t largest_ = 0;               ///< bytes of a loan, which are seen
  std::shared_ptr<const byte_view> mapped_; ///< all of it, as far as it was known
};

} // namespace mailgrad::net
