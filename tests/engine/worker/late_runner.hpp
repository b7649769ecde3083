#pragma once

#include <mailgrad/engine/worker/step_runner.hpp>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace mailgrad::testing {

/// The steps that several runners have begun. They are computed only when a caller ends them, in an order
/// drawn from a seed.
///
/// Threads  any member, on any thread.
class late_steps {
public:
  explicit late_steps(std::uint64_t seed) : random_(seed) {}

  void begin(std::function<void()> step) {
    const std::lock_guard guard(mutex_);
    begun_.push_back(std::move(step));
    changed_.notify_one();
  }

  /// Computes and ends one step. Returns false if none is under way.
  bool end_one() {
    std::unique_lock lock(mutex_);
    return end_one(lock);
  }

  /// Ends all steps as they begin, until close() is called.
  void end_all() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return closed_ || !begun_.empty(); });
      if (!end_one(lock)) return;
    }
  }
  void close() {
    const std::lock_guard guard(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  std::size_t under_way() const {
    const std::lock_guard guard(mutex_);
    return begun_.size();
  }

private:
  bool end_one(std::unique_lock<std::mutex>& lock) {
    if (begun_.empty()) return false;
    std::swap(begun_[random_() % begun_.size()], begun_.back());
    const std::function<void()> step = std::move(begun_.back());
    begun_.pop_back();
    lock.unlock();
    step();
    lock.lock();
    return true;
  }

  mutable std::mutex mutex_; ///< guards all below
  std::condition_variable changed_;
  std::vector<std::function<void()>> begun_;
  std::mt19937_64 random_;
  bool closed_ = false;
};

/// Threads, other than those of actors, that end late steps.
class late_threads {
public:
  late_threads(late_steps& steps, std::size_t count) : steps_(steps) {
    for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this] { steps_.end_all(); });
  }
  ~late_threads() {
    steps_.close();
    for (std::thread& t : threads_) t.join();
  }
  late_threads(const late_threads&) = delete;
  late_threads& operator=(const late_threads&) = delete;

private:
  late_steps& steps_;
  std::vector<std::thread> threads_;
};

/// A runner that behaves like that of a GPU. begin_step() returns at once, and the step ends later, on the
/// thread that calls late_steps. Another runner, which computes at once, does the work.
class late_runner : public step_runner {
public:
  late_runner(std::shared_ptr<step_runner> own, late_steps& steps) : own_(std::move(own)), steps_(steps) {}
  ~late_runner() override {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return !busy_; });
  }

  std::shared_ptr<gradient> make_gradient() const override { return own_->make_gradient(); }
  void on_end(std::function<void()> notice) override { notice_ = std::move(notice); }
  void use_host_weights(std::uint32_t shard, const float* values,
                        std::shared_ptr<const void> owner) override {
    own_->use_racing_weights(racing());
    own_->use_host_weights(shard, values, std::move(owner));
  }
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override {
    own_->use_racing_weights(racing());
    {
      const std::lock_guard guard(mutex_);
      busy_ = true;
    }
    steps_.begin([this, notice = notice_, inputs = std::move(inputs), out = std::move(out)]() mutable {
      compute(std::move(inputs), std::move(out));
      notice(); // by now the runner may be gone
    });
    return step_state::under_way;
  }
  float end_step() override {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    return loss_;
  }
  step_state give_up() override {
    const std::lock_guard guard(mutex_);
    return busy_ ? step_state::under_way : step_state::finished;
  }
  std::string waits_for() const override { return "a late step"; }

private:
  void compute(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) {
    try {
      own_->begin_step(std::move(inputs), std::move(out));
      loss_ = own_->end_step();
    } catch (const std::exception&) {
      failure_ = std::current_exception();
    }
    const std::lock_guard guard(mutex_);
    busy_ = false;
    ended_.notify_all();
  }

  std::shared_ptr<step_runner> own_;
  late_steps& steps_;
  std::function<void()> notice_;
  std::mutex mutex_; ///< guards busy_
  std::condition_variable ended_;
  bool busy_ = false;
  float loss_ = 0;
  std::exception_ptr failure_;
};

} // namespace mailgrad::testing
