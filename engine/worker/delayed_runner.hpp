#pragma once

#include <mailgrad/engine/account/time_source.hpp>
#include <mailgrad/engine/delays/delay_law.hpp>
#include <mailgrad/engine/worker/step_runner.hpp>
#include <mailgrad/engine/worker/step_timer.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace mailgrad {

/// By which law the steps of a worker take time.
struct step_delays {
  std::unique_ptr<delay_law> law;
  std::shared_ptr<const time_source> time;
  std::shared_ptr<step_timer> timer; ///< by the same clock
  instant begun{0};                  ///< when the run began
};

/// A runner whose steps take as long as a law prescribes. Another runner computes them.
///
/// A step is computed when it begins, and its owner idles for the rest of the prescribed time. A step that
/// takes longer to compute ends when it is computed.
/// Threads  as those of the other runner; the notice may also come on a thread of the timer.
class delayed_runner final : public step_runner {
public:
  delayed_runner(std::shared_ptr<step_runner> own, step_delays delays);
  ~delayed_runner() override;

  std::shared_ptr<gradient> make_gradient() const override { return own_->make_gradient(); }
  void on_end(std::function<void()> notice) override;
  void use_weights(std::uint32_t shard, const snapshot& values) override;
  void use_host_weights(std::uint32_t shard, const float* values, std::shared_ptr<const void> owner) override;
  void use_norms() override { own_->use_norms(); }
  double squared_norm(const gradient& g) const override { return own_->squared_norm(g); }
  void compare_with(std::shared_ptr<const gradient> stale) override { own_->compare_with(std::move(stale)); }
  std::optional<double> cosine_to(const gradient& stale, const gradient& fresh) const override {
    return own_->cosine_to(stale, fresh);
  }
  bool computes_at_once() const noexcept override { return own_->computes_at_once(); }
  bool copies_ahead() const noexcept override { return own_->copies_ahead(); }
  void foresee(std::shared_ptr<const batch> next, std::function<void()> copied) override {
    own_->foresee(std::move(next), std::move(copied));
  }
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override;
  float end_step() override { return own_->end_step(); }
  /// No one waits for a prescribed time, only for what the other runner computes.
  step_state give_up() override;
  std::vector<stage_report> stage_reports() override { return own_->stage_reports(); }
  std::string waits_for() const override { return own_->waits_for() + ", or the end of its prescribed time"; }

private:
  class ending;

  std::shared_ptr<step_runner> own_;
  std::unique_ptr<delay_law> law_;
  std::shared_ptr<const time_source> time_;
  instant begun_;
  std::uint64_t steps_ = 0;
  std::shared_ptr<ending>
      ending_; ///< of the present step; the timer may have it longer than there is a runner
};

/// A law's seconds as a span of a clock.
instant span_of(double seconds) noexcept;

} // namespace mailgrad
