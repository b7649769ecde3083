#include <mailgrad/engine/worker/mark_watch.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

using clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds awake{2};    ///< behind the last change, without a pause
constexpr std::chrono::microseconds between{50}; ///< two rounds from then on

class polling_watch final : public mark_watch {
public:
  polling_watch() : thread_([this](const std::stop_token& stop) { run(stop); }) {}

  void when_passed(mark m, notice tell) override {
    {
      const std::lock_guard held(mutex_);
      added_.push_back({std::move(m), std::move(tell)});
    }
    changed_.notify_one();
  }

private:
  struct watched {
    mark what;
    notice tell;
  };

  void run(const std::stop_token& stop) {
    std::vector<watched> all;
    clock::time_point last_change = clock::now();
    while (!stop.stop_requested()) {
      if (take_added(all, stop)) last_change = clock::now();
      if (std::erase_if(all, has_told) > 0)
        last_change = clock::now();
      else if (clock::now() - last_change > awake)
        std::this_thread::sleep_for(between);
    }
  }

  /// Waits for something to watch if there is nothing. Returns whether anything was added.
  bool take_added(std::vector<watched>& all, const std::stop_token& stop) {
    std::unique_lock held(mutex_);
    if (all.empty()) changed_.wait(held, stop, [this] { return !added_.empty(); });
    const bool some = !added_.empty();
    std::ranges::move(added_, std::back_inserter(all));
    added_.clear();
    return some;
  }

  static bool has_told(const watched& w) {
    std::exception_ptr why;
    try {
      if (!w.what.passed()) return false;
    } catch (...) {
      why = std::current_exception();
    }
    w.tell(why);
    return true;
  }

  std::mutex mutex_; ///< guards `added_`
  std::condition_variable_any changed_;
  std::vector<watched> added_;
  std::jthread thread_; ///< the last member, since it uses the others
};

} // namespace

std::shared_ptr<mark_watch> watch_of_process() {
  // It outlives its users, whose last words may be spoken on its thread.
  static const auto watch = std::make_shared<polling_watch>();
  return watch;
}

} // namespace mailgrad
