#include <mailgrad/actors/run/run_state.hpp>

#include <mailgrad/engine/account/report_of_run.hpp>

#include <utility>

namespace mailgrad {

void run_state::tell(const training_progress& so_far) {
  std::lock_guard guard(mutex_);
  progress_ = so_far;
}

void run_state::tell(const checkpoint_account& so_far) {
  std::lock_guard guard(mutex_);
  checkpoints_ = so_far;
}

void run_state::tell(const wait_named& wait) {
  std::lock_guard guard(mutex_);
  for (auto* waits : listeners_) waits->push_back(in_words(wait));
}

void run_state::tell_policy(std::string text) {
  std::lock_guard guard(mutex_);
  policy_ = std::move(text);
}

void run_state::end(run_outcome outcome) {
  std::lock_guard guard(mutex_);
  ended_ = time_->now();
  outcome_ = std::move(outcome);
  end_.notify_all();
}

training_progress run_state::progress() const {
  std::lock_guard guard(mutex_);
  return progress_;
}

std::string run_state::policy() const {
  std::lock_guard guard(mutex_);
  return policy_;
}

checkpoint_account run_state::checkpoints() const {
  std::lock_guard guard(mutex_);
  return checkpoints_;
}

const run_outcome& run_state::wait() const {
  std::unique_lock lock(mutex_);
  end_.wait(lock, [this] { return outcome_.has_value(); });
  return *outcome_;
}

bool run_state::wait_for(std::chrono::milliseconds span) const {
  std::unique_lock lock(mutex_);
  return end_.wait_for(lock, span, [this] { return outcome_.has_value(); });
}

const run_outcome* run_state::outcome() const {
  std::lock_guard guard(mutex_);
  return outcome_ ? &*outcome_ : nullptr;
}

instant run_state::ended_or_now() const {
  std::lock_guard guard(mutex_);
  return outcome_ ? ended_ : time_->now();
}

std::vector<std::string> run_state::waits_told(const std::function<void()>& ask,
                                               std::chrono::milliseconds span) {
  std::vector<std::string> waits;
  std::unique_lock lock(mutex_);
  listeners_.push_back(&waits);
  ask();
  end_.wait_for(lock, span, [this] { return outcome_.has_value(); });
  std::erase(listeners_, &waits);
  return waits;
}

} // namespace mailgrad
