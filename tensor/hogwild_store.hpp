#pragma once

#include <mailgrad/tensor/block.hpp>

#include <atomic>
#include <cstdint>

#ifdef __SANITIZE_THREAD__
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
#endif

namespace mailgrad {

/// Parameters that all replicas of a process read and write at the same time, without a lock.
///
/// Source  Niu, Recht, Re & Wright, "Hogwild!", NIPS 2011, arXiv:1106.5730. Differs: when two threads add to
///         one coordinate at once, one addition may be lost. A compare-and-swap would keep both at a quarter
///         of the speed.
/// Shapes  float32[size()], 64-byte aligned.
/// Threads any member, any thread, any time, but count_elsewhere() and go_on_from() only while no replica
///         writes. A coordinate is atomic, a vector is not: a reader may see half of an update. A program
///         reads `racing_view()` in its matrix products while other threads write. That race is the
///         algorithm, and no other memory in Mailgrad is shared in this way.
class hogwild_store {
public:
  explicit hogwild_store(std::span<const float> initial);

  std::size_t size() const noexcept { return size_; }

  /// The caller guarantees i < size(), here and in add(). Neither checks it, since both stand in the
  /// innermost loop.
  float load(std::size_t i) const noexcept {
    return std::atomic_ref{values_[i]}.load(std::memory_order_relaxed);
  }
  void add(std::size_t i, float delta) noexcept {
    std::atomic_ref value{values_[i]};
    value.store(value.load(std::memory_order_relaxed) + delta, std::memory_order_relaxed);
  }
  /// Moves a coordinate from `from`, the value that was loaded, to `to`. If other threads have changed it
  /// since, the difference to - from is added instead.
  void move(std::size_t i, float from, float to) noexcept {
    if (from == to) return;
    std::atomic_ref value{values_[i]};
    const float now = value.load(std::memory_order_relaxed);
    value.store(now == from ? to : now + (to - from), std::memory_order_relaxed);
  }

  /// Copies `out.size()` coordinates from `first` on, each loaded relaxed.
  ///
  /// Errors  shape_error if fewer than `out.size()` coordinates lie behind `first`.
  void load(std::size_t first, std::span<float> out) const;
  /// Overwrites coordinates from `first` on, each stored relaxed. What other threads added since the load is
  /// lost.
  ///
  /// Errors  as load().
  void store(std::size_t first, std::span<const float> values);

  /// The weights as a program reads them while other threads write to them.
  const float* racing_view() const noexcept { return values_; }

  /// The updates that all replicas have made here so far. Staleness is counted in these versions.
  std::uint64_t version() const noexcept { return version_.load(std::memory_order_relaxed); }
  /// Counts one finished update; returns the version before it.
  std::uint64_t advance() noexcept { return version_.fetch_add(1, std::memory_order_relaxed); }

  /// Records that a shard has made `updates` updates of its part outside of this store. The largest number of
  /// any shard counts. No replica may write meanwhile.
  void count_elsewhere(std::uint64_t updates) noexcept;
  /// All updates of these weights, made here or by the shards. Learning-rate schedules count in these.
  std::uint64_t updates() const noexcept {
    return elsewhere_.load(std::memory_order_relaxed) + before_ + version();
  }

  /// Goes on where a checkpoint was taken, before any replica writes. `version` counts the updates of the
  /// replicas that go on; `before` those of others, which only schedules count.
  void go_on_from(std::uint64_t version, std::uint64_t before) noexcept {
    version_.store(version, std::memory_order_relaxed);
    before_ = before;
  }
  /// The updates that were made here by replicas that are no more, in an earlier process.
  std::uint64_t before() const noexcept { return before_; }

private:
  void require(std::size_t first, std::size_t count) const;

  block memory_;
  float* values_ = nullptr;
  std::size_t size_ = 0;
  std::uint64_t before_ = 0;
  std::atomic<std::uint64_t> elsewhere_{0};
  alignas(block::alignment) std::atomic<std::uint64_t> version_{0};
};

/// A scope in which a thread reads racing_view(). It only tells ThreadSanitizer that this race is intended.
class racing_read {
public:
#ifdef __SANITIZE_THREAD__
  racing_read() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~racing_read() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
#else
  racing_read() {}  // NOLINT(modernize-use-equals-default): a trivial one would be called unused
  ~racing_read() {} // NOLINT(modernize-use-equals-default)
#endif
  racing_read(const racing_read&) = delete;
  racing_read& operator=(const racing_read&) = delete;
};

} // namespace mailgrad
