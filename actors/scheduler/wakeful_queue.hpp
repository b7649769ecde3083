#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>

namespace mailgrad {

/// First come, first served, for threads that stay awake a while when there is nothing: whoever sleeps is
/// called back by the kernel, within 15 us on an idle machine, but on a virtual one whose host has others to
/// serve often not for a millisecond. While awake, a thread yields to whoever else wants the processor.
///
/// Threads any.
template <class T>
class wakeful_queue {
public:
  explicit wakeful_queue(std::chrono::nanoseconds patience) : patience_(patience) {}

  void push(T x) {
    bool wake = false;
    {
      const std::lock_guard guard(mutex_);
      items_.push_back(x);
      size_.store(items_.size(), std::memory_order_release);
      wake = asleep_ > 0 && items_.size() > awake_; // else one of those who look takes it
    }
    if (wake) filled_.notify_one();
  }

  /// The oldest, as soon as there is one.
  T pop() {
    std::unique_lock lock(mutex_);
    if (items_.empty()) look(lock);
    if (items_.empty()) sleep(lock);
    const T first = items_.front();
    items_.pop_front();
    size_.store(items_.size(), std::memory_order_release);
    return first;
  }

  /// Hands over what there is, without waiting.
  template <class Function>
  void drain(Function f) {
    std::deque<T> all;
    {
      const std::lock_guard guard(mutex_);
      all.swap(items_);
      size_.store(0, std::memory_order_release);
    }
    for (const T& x : all) f(x);
  }

private:
  /// Until there is something for this thread, or its patience ends. Another may be faster, then it looks on.
  void look(std::unique_lock<std::mutex>& lock) {
    const auto until = std::chrono::steady_clock::now() + patience_;
    ++awake_;
    while (items_.empty() && std::chrono::steady_clock::now() < until) {
      lock.unlock();
      while (size_.load(std::memory_order_acquire) == 0 && std::chrono::steady_clock::now() < until)
        std::this_thread::yield();
      lock.lock();
    }
    --awake_;
  }

  void sleep(std::unique_lock<std::mutex>& lock) {
    ++asleep_;
    filled_.wait(lock, [this] { return !items_.empty(); });
    --asleep_;
  }

  static constexpr std::size_t cache_line = 64;

  const std::chrono::nanoseconds patience_;
  alignas(cache_line) std::atomic<std::size_t> size_{0}; ///< of items_, for those who look without the lock
  alignas(cache_line) std::mutex mutex_;                 ///< guards the rest
  std::condition_variable filled_;
  std::deque<T> items_;
  std::size_t awake_ = 0;  ///< threads that look for an item
  std::size_t asleep_ = 0; ///< and those that have to be called
};

} // namespace mailgrad
