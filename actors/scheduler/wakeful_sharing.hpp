#include <mailgrad/actors/protocol/caf_compat.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>

// How the threads of a run share work: by a wakeful_queue. The schedulers of CAF 1.x have another interface,
// and ThreadSanitizer would see one half of CAF's templates. In both cases CAF's own work sharing is used,
// whose threads sleep at once.
#pragma once

#if CAF_MAJOR_VERSION < 1 && !defined(__SANITIZE_THREAD__)
#define MAILGRAD_WAKEFUL_SHARING
#include <caf/detail/log_level.hpp>
#include <caf/logger.hpp>
#include <caf/policy/unprofiled.hpp>
#include <caf/scheduler/coordinator.hpp>
#endif

namespace mailgrad {

/// A queue, first come, first served, whose threads stay awake for a while when it is empty. Waking a
/// sleeping thread takes the kernel 15 us on an idle machine, but often a millisecond on a virtual machine
/// whose host is busy. A thread that is awake yields the processor to other threads.
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

/// Longer than the barriers of a step, and too short for a user to notice.
inline constexpr std::chrono::milliseconds patience_of_threads{2};

#ifdef MAILGRAD_WAKEFUL_SHARING
/// One queue for all threads, as a policy of CAF's scheduler.
class wakeful_sharing : public caf::policy::unprofiled {
public:
  struct coordinator_data {
    explicit coordinator_data(caf::scheduler::abstract_coordinator*) {}
    wakeful_queue<caf::resumable*> ready{patience_of_threads};
  };
  struct worker_data {
    explicit worker_data(caf::scheduler::abstract_coordinator*) {}
  };

  template <class Coordinator>
  void central_enqueue(Coordinator* self, caf::resumable* job) {
    d(self).ready.push(job);
  }
  template <class Worker>
  void external_enqueue(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }
  template <class Worker>
  void internal_enqueue(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }
  /// Called for an actor that has had its turn and has further messages.
  template <class Worker>
  void resume_job_later(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }
  /// Runs the actors that are ready. Returns a job that is not an actor, such as the end of the thread.
  ///
  /// CAF's own loop notes for its log which actor it runs, by a dynamic_cast and look-ups under a lock, and
  /// each actor does the same. That takes a sixth of the smallest step. If logging is compiled out, the
  /// thread therefore has no log.
  template <class Worker>
  caf::resumable* dequeue(Worker* self) {
    if constexpr (CAF_LOG_LEVEL == CAF_LOG_LEVEL_QUIET) caf::logger::set_current_actor_system(nullptr);
    for (;;) {
      caf::resumable* const job = d(self->parent()).ready.pop();
      if (job->subtype() != caf::resumable::scheduled_actor) return job;
      if (job->resume(self, self->max_throughput()) == caf::resumable::resume_later)
        resume_job_later(self, job);
      else
        caf::intrusive_ptr_release(job);
    }
  }
  template <class Worker, class Function>
  void foreach_resumable(Worker*, Function) {}
  template <class Coordinator, class Function>
  void foreach_central_resumable(Coordinator* self, Function f) {
    d(self).ready.drain(f);
  }
};

inline void share_work_awake(caf::actor_system_config& config) {
  config.load<caf::scheduler::coordinator<wakeful_sharing>>();
}
#else
inline void share_work_awake(caf::actor_system_config& config) { caf_compat::share_work(config); }
#endif

} // namespace mailgrad
