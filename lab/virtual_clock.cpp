#include <mailgrad/lab/virtual_clock.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad::lab {

void virtual_clock::at(instant when, owner whose, notice tell) {
  const event asked{std::max(when, now_), asked_++, keep(std::move(tell)), whose};
  if (first_.empty() || is_later(asked, first_.back())) {
    later_.push_back(asked);
    std::ranges::push_heap(later_, is_later);
    return;
  }
  first_.insert(
      std::ranges::upper_bound(first_, asked, [](const event& a, const event& b) { return is_later(b, a); }),
      asked);
  if (first_.size() <= 2 * std::size_t(foresight::some)) return;
  later_.push_back(first_.back());
  std::ranges::push_heap(later_, is_later);
  first_.pop_back();
}

std::uint32_t virtual_clock::keep(notice tell) {
  if (free_.empty()) {
    notices_.push_back(std::move(tell));
    return static_cast<std::uint32_t>(notices_.size() - 1);
  }
  const std::uint32_t place = free_.back();
  free_.pop_back();
  notices_[place] = std::move(tell);
  return place;
}

/// Takes so many that each is foreseen in time.
void virtual_clock::take_first() {
  while (first_.size() <= std::size_t(foresight::some) && !later_.empty()) {
    std::ranges::pop_heap(later_, is_later);
    first_.push_back(later_.back());
    later_.pop_back();
  }
}

void virtual_clock::foresee_at(foresight before) const {
  if (first_.size() <= std::size_t(before)) return;
  const owner whose = first_[std::size_t(before)].whose;
  if (whose != nobody) foresee_(whose, before);
}

bool virtual_clock::next() {
  take_first();
  if (first_.empty()) return false;
  if (foresee_)
    for (const foresight before : {foresight::some, foresight::few, foresight::hardly_any})
      foresee_at(before);
  const event first = first_.front();
  first_.erase(first_.begin());
  now_ = first.when;
  const notice tell = std::exchange(notices_[first.place], nullptr);
  free_.push_back(first.place);
  tell();
  return true;
}

void virtual_clock::clear() noexcept {
  first_.clear();
  later_.clear();
  notices_.clear();
  free_.clear();
}

class late_steps::timer final : public step_timer, public std::enable_shared_from_this<timer> {
public:
  timer(std::shared_ptr<virtual_clock> clock, rank whose, std::shared_ptr<notes> to)
      : clock_(std::move(clock)), whose_(whose), to_(std::move(to)) {}

  void at(instant when, notice tell) override {
    tell_ = std::move(tell);
    due_ = std::max(when, clock_->now());
    to_->begun.push_back(this);
    wait();
  }

  void note_read(std::uint64_t version) noexcept { read_ = version; }
  std::uint64_t read() const noexcept { return read_; }
  bool is_under_way() const noexcept { return static_cast<bool>(tell_); }
  void end() { std::exchange(tell_, nullptr)(); }

private:
  /// The first of the events that wait comes in time, or before.
  void wait() {
    if (!waiting_.empty() && waiting_.back() <= due_) return;
    waiting_.push_back(due_);
    clock_->at(due_, whose_.value, [self = shared_from_this()] { self->pass(); });
  }
  void pass() {
    waiting_.pop_back();
    if (is_under_way() && due_ <= clock_->now()) return end();
    ++to_->passed;
    if (is_under_way()) wait();
  }

  std::shared_ptr<virtual_clock> clock_;
  rank whose_;
  std::shared_ptr<notes> to_;
  notice tell_; ///< of the step under way; empty if there is none
  instant due_{0};
  std::vector<instant> waiting_; ///< moments of events, the first one at the end
  std::uint64_t read_ = 0;       ///< the version that the step under way has read
};

std::shared_ptr<step_timer> late_steps::timer_of(rank whose) {
  timers_.push_back(std::make_shared<timer>(clock_, whose, notes_));
  return timers_.back();
}

std::size_t late_steps::end(std::uint64_t version) {
  for (timer* t : notes_->begun) t->note_read(version);
  notes_->begun.clear();
  if (std::exchange(version_, version) == version) return 0;
  std::size_t ended = 0;
  for (const std::shared_ptr<timer>& t : timers_) {
    if (!t->is_under_way() || version - t->read() <= most_stale_) continue;
    t->end();
    ++ended;
  }
  return ended;
}

} // namespace mailgrad::lab
