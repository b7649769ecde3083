#pragma once

#include <mailgrad/tensor/block.hpp>

#include <atomic>
#include <cstdint>
#include <span>

#ifdef __SANITIZE_THREAD__
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
#endif

namespace mailgrad {

/// The one lock-free room: parameters that all replicas of a process read and write at once.
///
/// Source  Niu, Recht, Re & Wright, "Hogwild!", NIPS 2011, arXiv:1106.5730. Differs: of two additions to one
///         coordinate at once, one may be lost; a compare-and-swap would keep both at a quarter of the speed.
/// Shapes  float32[size()], 64-byte aligned.
/// Threads any member, any thread, any time. A coordinate is atomic, a vector is not: a reader may see half
///         of an update. The program reads `racing_view()` in its matrix products while others write; that is
///         the algorithm, and no other memory in Mailgrad is shared so.
class hogwild_store {
public:
  explicit hogwild_store(std::span<const float> initial);

  std::size_t size() const noexcept { return size_; }

  /// i < size(), here and in add(): these two stand in the innermost loop, and are not checked.
  float load(std::size_t i) const noexcept {
    return std::atomic_ref{values_[i]}.load(std::memory_order_relaxed);
  }
  void add(std::size_t i, float delta) noexcept {
    std::atomic_ref value{values_[i]};
    value.store(value.load(std::memory_order_relaxed) + delta, std::memory_order_relaxed);
  }
  /// Takes a coordinate from `from`, as it was loaded, to `to`, exactly unless others have moved it since;
  /// then by the difference.
  void move(std::size_t i, float from, float to) noexcept {
    if (from == to) return;
    std::atomic_ref value{values_[i]};
    const float now = value.load(std::memory_order_relaxed);
    value.store(now == from ? to : now + (to - from), std::memory_order_relaxed);
  }

  /// Copies `out.size()` coordinates from `first` on, each loaded relaxed.
  ///
  /// Errors  shape_error if there are not so many behind `first`.
  void load(std::size_t first, std::span<float> out) const;
  /// Overwrites coordinates from `first` on, each stored relaxed: what others added since the load is lost.
  ///
  /// Errors  as load().
  void store(std::size_t first, std::span<const float> values);

  /// What a program reads while it is being written.
  const float* racing_view() const noexcept { return values_; }

  /// Updates made here so far, by all replicas: the version that staleness is counted in.
  std::uint64_t version() const noexcept { return version_.load(std::memory_order_relaxed); }
  /// Counts one finished update; returns the version before it.
  std::uint64_t advance() noexcept { return version_.fetch_add(1, std::memory_order_relaxed); }

  /// A shard has made so many updates of its part elsewhere. While no replica writes; the largest number
  /// counts.
  void count_elsewhere(std::uint64_t updates) noexcept;
  /// Of these weights, wherever they were made: what schedules go by.
  std::uint64_t updates() const noexcept { return elsewhere_.load(std::memory_order_relaxed) + version(); }

private:
  void require(std::size_t first, std::size_t count) const;

  block memory_;
  float* values_ = nullptr;
  std::size_t size_ = 0;
  std::atomic<std::uint64_t> elsewhere_{0};
  alignas(block::alignment) std::atomic<std::uint64_t> version_{0};
};

/// The span in which a thread reads racing_view(). It does nothing, but tells ThreadSanitizer that this race
/// is the algorithm.
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
