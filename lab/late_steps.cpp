#include <mailgrad/lab/late_steps.hpp>

#include <utility>

namespace mailgrad::lab {

class late_steps::timer final : public step_timer, public std::enable_shared_from_this<timer> {
public:
  timer(std::shared_ptr<virtual_clock> clock, rank whose, std::shared_ptr<notes> to)
      : clock_(std::move(clock)), whose_(whose), to_(std::move(to)) {}

  void at(instant when, notice tell) override {
    tell_ = std::move(tell);
    to_->begun.push_back(this);
    clock_->at(when, whose_.value, [self = shared_from_this(), step = ++steps_] {
      if (self->is_under_way() && self->steps_ == step)
        self->end();
      else
        ++self->to_->passed;
    });
  }

  void note_read(std::uint64_t version) noexcept { read_ = version; }
  std::uint64_t read() const noexcept { return read_; }
  bool is_under_way() const noexcept { return static_cast<bool>(tell_); }
  void end() { std::exchange(tell_, nullptr)(); }

private:
  std::shared_ptr<virtual_clock> clock_;
  rank whose_;
  std::shared_ptr<notes> to_;
  notice tell_; ///< of the step under way; empty if there is none
  std::uint64_t steps_ = 0;
  std::uint64_t read_ = 0; ///< the version that the step under way has read
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
