#include <mailgrad/engine/worker/event_watch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace mailgrad {

namespace {

using clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds awake{2};    ///< behind the last change, without a pause
constexpr std::chrono::microseconds between{50}; ///< two rounds from then on
/// Between two times that the driver is asked for events of which the device tells, since it knows of faults.
constexpr std::chrono::microseconds unasked{250};
/// The driver takes the lock under which work is queued. So it is asked for each other event less often the
/// longer that is watched: it is known an eighth too late, or `between`.
constexpr std::chrono::microseconds soonest{2};

class polling_watch final : public event_watch {
public:
  polling_watch() : thread_([this](const std::stop_token& stop) { run(stop); }) {}

  void when_passed(device_event m, notice tell) override {
    {
      const std::lock_guard held(mutex_);
      added_.push_back({std::move(m), std::move(tell)});
      if (added_.back().what.tells()) added_.back().next += unasked;
      any_added_.store(true, std::memory_order_release);
    }
    changed_.notify_one();
  }

private:
  struct watched {
    device_event what;
    notice tell;
    clock::time_point since = clock::now(), next = since + soonest;

    bool is_due(clock::time_point now) {
      if (now < next) return false;
      next = now + (what.tells() ? clock::duration(unasked)
                                 : std::clamp<clock::duration>((now - since) / 8, soonest, between));
      return true;
    }
  };

  void run(const std::stop_token& stop) {
    std::vector<watched> all;
    clock::time_point last_change = clock::now();
    while (!stop.stop_requested()) {
      const bool rests = all.empty() && clock::now() - last_change > awake;
      if (take_added(all, rests, stop)) last_change = clock::now();
      const clock::time_point now = clock::now();
      if (std::erase_if(all, [now](watched& w) { return has_ended(w, now); }) > 0)
        last_change = now;
      else if (!all.empty() && now - last_change > awake)
        std::this_thread::sleep_for(between);
    }
  }

  /// `rests`: sleeps until there is something to watch. Returns whether anything was added.
  bool take_added(std::vector<watched>& all, bool rests, const std::stop_token& stop) {
    if (!rests && !any_added_.load(std::memory_order_acquire)) return false;
    std::unique_lock held(mutex_);
    if (rests) changed_.wait(held, stop, [this] { return !added_.empty(); });
    const bool some = !added_.empty();
    std::ranges::move(added_, std::back_inserter(all));
    added_.clear();
    any_added_.store(false, std::memory_order_relaxed);
    return some;
  }

  static bool has_ended(watched& w, clock::time_point now) {
    std::exception_ptr why;
    try {
      const bool asks = w.is_due(now);
      if (!(asks ? w.what.passed() : w.what.tells() && w.what.told())) return false;
    } catch (...) {
      why = std::current_exception();
    }
    w.tell(why);
    return true;
  }

  std::mutex mutex_; ///< guards `added_`
  std::condition_variable_any changed_;
  std::vector<watched> added_;
  std::atomic<bool> any_added_ = false; ///< so that the rounds leave the lock to the queues
  std::jthread thread_;                 ///< the last member, since it uses the others
};

} // namespace

std::shared_ptr<event_watch> watch_of_process() {
  // It outlives its users, whose last words may be spoken on its thread.
  static const auto watch = std::make_shared<polling_watch>();
  return watch;
}

} // namespace mailgrad
