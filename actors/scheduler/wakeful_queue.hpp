#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>

namespace mailgrad {

/// A queue, first come, first served, whose threads stay awake for a while when it is empty. Waking a
/// sleeping thread takes the kernel 15 us on an idle machine, but often a millisecond on a virtual machine
/// whose host is busy. A thread that is awake yields the processor to other threads.
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
      wake = asleep_ > 0 && items_.size() > awake_; // else a thread that is awake takes it
    }
    if (wake) filled_.notify_one();
  }

  /// Removes the oldest item; blocks while there is none.
  T pop() {
    std::unique_lock lock(mutex_);
    if (items_.empty()) look(lock);
    if (items_.empty()) sleep(lock);
    const T first = items_.front();
    items_.pop_front();
    size_.store(items_.size(), std::memory_order_release);
    return first;
  }

  /// Calls `f` with each item that is there, and removes all. Does not block.
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
  /// Stays awake until there is an item for this thread, or its patience ends. If another thread takes the
  /// item first, this one goes on.
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
  alignas(cache_line) std::atomic<std::size_t> size_{
      0};                                ///< of items_, for threads that look without the lock
  alignas(cache_line) std::mutex mutex_; ///< guards the rest
  std::condition_variable filled_;
  std::deque<T> items_;
  std::size_t awake_ = 0;  ///< threads that are in look()
  std::size_t asleep_ = 0; ///< threads that must be notified
};

} // namespace mailgrad
