#include <mailgrad/engine/worker/step_timer.hpp>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace mailgrad {

namespace {

using clock = std::chrono::steady_clock;

class waiting_timer final : public step_timer {
public:
  waiting_timer() : thread_([this](const std::stop_token& stop) { run(stop); }) {}

  void at(instant when, notice tell) override {
    bool is_next = false;
    {
      const std::lock_guard held(mutex_);
      const auto added = due_.emplace(when, std::move(tell));
      is_next = added == due_.begin(); // not in one expression, which may ask for the begin before
    }
    if (is_next) changed_.notify_one();
  }

private:
  void run(const std::stop_token& stop) {
    std::unique_lock held(mutex_);
    while (!stop.stop_requested()) {
      if (due_.empty())
        changed_.wait(held, stop, [this] { return !due_.empty(); });
      else if (const instant next = due_.begin()->first; next > clock::now().time_since_epoch())
        changed_.wait_until(held, stop, clock::time_point(next),
                            [&] { return due_.empty() || due_.begin()->first < next; });
      else
        tell_first(held);
    }
  }

  /// Without the lock, since a notice may ask for another one.
  void tell_first(std::unique_lock<std::mutex>& held) {
    const auto first = due_.extract(due_.begin());
    held.unlock();
    first.mapped()();
    held.lock();
  }

  std::mutex mutex_; ///< guards `due_`
  std::condition_variable_any changed_;
  std::multimap<instant, notice> due_; ///< those of one moment in the order in which they came
  std::jthread thread_;                ///< the last member, since it uses the others
};

} // namespace

std::shared_ptr<step_timer> timer_of_process() {
  // It outlives its users, whose last words may be spoken on its thread.
  static const auto timer = std::make_shared<waiting_timer>();
  return timer;
}

} // namespace mailgrad
