#include <mailgrad/engine/worker/delayed_runner.hpp>

#include <mutex>

namespace mailgrad {

/// Tells the owner that a step has ended, at the earliest when its prescribed time is over.
class delayed_runner::ending : public std::enable_shared_from_this<ending> {
public:
  ending(std::shared_ptr<const time_source> time, std::shared_ptr<step_timer> timer)
      : time_(std::move(time)), timer_(std::move(timer)) {}

  void set_notice(std::function<void()> notice) {
    const std::lock_guard held(mutex_);
    notice_ = std::move(notice);
  }

  void set_due(instant due) {
    const std::lock_guard held(mutex_);
    due_ = due;
  }

  bool is_due() const {
    const std::lock_guard held(mutex_);
    return gives_up_ || time_->now() >= due_;
  }

  void tell_when_due() {
    if (is_due()) return tell();
    // The timer, which this holds, may never come to it.
    timer_->at(due(), [self = weak_from_this()] {
      if (const auto held = self.lock()) held->tell();
    });
  }

  void give_up() {
    const std::lock_guard held(mutex_);
    gives_up_ = true;
  }

  /// The owner has ended, and nothing of it may be reached from a thread any more.
  void close() { set_notice({}); }

private:
  instant due() const {
    const std::lock_guard held(mutex_);
    return due_;
  }
  /// Under the lock, so that close() waits until the notice has returned.
  void tell() {
    const std::lock_guard held(mutex_);
    if (notice_) notice_();
  }

  std::shared_ptr<const time_source> time_;
  std::shared_ptr<step_timer> timer_;
  mutable std::mutex mutex_; ///< guards all below
  std::function<void()> notice_;
  instant due_{0};
  bool gives_up_ = false;
};

instant span_of(double seconds) noexcept { return instant{std::llround(seconds * 1e9)}; }

delayed_runner::delayed_runner(std::shared_ptr<step_runner> own, step_delays delays)
    : own_(std::move(own)), law_(std::move(delays.law)), time_(std::move(delays.time)), begun_(delays.begun),
      ending_(std::make_shared<ending>(time_, std::move(delays.timer))) {}

delayed_runner::~delayed_runner() { ending_->close(); }

void delayed_runner::on_end(std::function<void()> notice) {
  ending_->set_notice(std::move(notice));
  own_->on_end([ending = ending_] { ending->tell_when_due(); });
}

step_state delayed_runner::begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) {
  const instant now = time_->now();
  ending_->set_due(now + span_of(law_->seconds_on(*inputs, ++steps_, in_seconds(now - begun_))));
  own_->use_racing_weights(racing());
  if (own_->begin_step(std::move(inputs), std::move(out)) == step_state::under_way)
    return step_state::under_way;
  if (ending_->is_due()) return step_state::finished;
  ending_->tell_when_due();
  return step_state::under_way;
}

step_state delayed_runner::give_up() {
  ending_->give_up();
  return own_->give_up();
}

/// Weights that others write to meanwhile (hogwild) would be newer at the end, so they are read now.
step_state simulated_runner::begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) {
  require_step(inputs.get(), out.get());
  const instant now = delays_.time->now();
  const instant due =
      now + span_of(delays_.law->seconds_on(*inputs, ++steps_, in_seconds(now - delays_.begun)));
  if (on_begin_) on_begin_(weights_);
  inputs_ = std::move(inputs);
  out_ = std::move(out);
  loss_.reset();
  if (racing()) loss_ = compute();
  delays_.timer->at(due, notice_);
  return step_state::under_way;
}

void simulated_runner::fetch_parts() const noexcept {
  fetch_ahead(*delays_.law);
  fetch_ahead(*delays_.timer);
  fetch_ahead(weights_.data(), weights_.size() * sizeof(float*));
  if (inputs_) fetch_ahead(*inputs_);
  if (out_) fetch_ahead(*out_);
}

/// How many weights there are is not known here; the first ones are all of a small model.
void simulated_runner::fetch_values() const noexcept {
  constexpr std::size_t first = 512;
  for (const float* of_shard : weights_) mailgrad::fetch_ahead(of_shard, first);
  if (inputs_) mailgrad::fetch_ahead(inputs_->features.data(), inputs_->features.size() * sizeof(float));
  if (inputs_) mailgrad::fetch_ahead(inputs_->labels.data(), inputs_->labels.size() * sizeof(float));
  if (out_ && out_->dense.is_on_host()) {
    const std::span<const float> dense = std::as_const(out_->dense).on_host<float>();
    mailgrad::fetch_ahead(dense.data(), dense.size_bytes());
  }
}

float simulated_runner::compute() {
  shared_->use_racing_weights(racing());
  for (std::uint32_t s = 0; s < weights_.size(); ++s) shared_->use_host_weights(s, weights_[s], {});
  shared_->begin_step(std::move(inputs_), std::move(out_));
  const float loss = shared_->end_step();
  if (on_loss_) on_loss_(loss);
  return loss;
}

} // namespace mailgrad
