#pragma once

#include <mailgrad/engine/delays/delay_law.hpp>
#include <mailgrad/engine/worker/step_runner.hpp>
#include <mailgrad/engine/worker/step_timer.hpp>

namespace mailgrad {

/// Begins to fetch memory into the caches, for a reader that comes soon. Nothing changes, and the memory may
/// be anybody's. Of a large piece only the begin is fetched, since a processor foresees the rest.
inline void fetch_ahead(const void* memory, std::size_t bytes) noexcept {
  constexpr std::size_t line = 64;
  constexpr std::size_t most = 64 * line;
  const std::size_t before = reinterpret_cast<std::uintptr_t>(memory) % line;
  const auto* first = static_cast<const std::byte*>(memory) - before;
  const std::size_t end = before + (bytes < most ? bytes : most);
  for (std::size_t at = 0; at < end; at += line) __builtin_prefetch(first + at);
}
template <class T>
void fetch_ahead(const T& object) noexcept {
  fetch_ahead(&object, sizeof object);
}

struct step_delays {
  std::unique_ptr<delay_law> law;
  std::shared_ptr<const time_source> time;
  std::shared_ptr<step_timer> timer; ///< by the same clock
  instant begun{0};                  ///< when the run began
};

/// A runner whose steps take as long as a law prescribes. Another runner computes them.
///
/// A step is computed when it begins. Its owner idles for the rest of the prescribed time, if there is any.
/// Threads  as those of the other runner; the notice may also come on a thread of the timer.
class delayed_runner final : public step_runner {
public:
  delayed_runner(std::shared_ptr<step_runner> own, step_delays delays);
  ~delayed_runner() override;

  std::shared_ptr<gradient> make_gradient() const override { return own_->make_gradient(); }
  void on_end(std::function<void()> notice) override;
  void use_weights(std::uint32_t shard, const snapshot& values) override {
    own_->use_racing_weights(racing());
    own_->use_weights(shard, values);
  }
  void use_host_weights(std::uint32_t shard, const float* values,
                        std::shared_ptr<const void> owner) override {
    own_->use_racing_weights(racing());
    own_->use_host_weights(shard, values, std::move(owner));
  }
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
  std::shared_ptr<ending> ending_; ///< of the present step; the timer may have it longer
};

instant span_of(double seconds) noexcept;

/// A runner for simulated time, in which computing takes no time, and a step as long as its law prescribes.
///
/// A step is computed when it ends, from the weights of its begin. So the runners of all workers can share
/// another one, with one program and its memory. A step that its owner gives up or skips is never computed.
/// Threads  one for all that share a runner; the timer calls on that thread too.
class simulated_runner final : public step_runner {
public:
  /// `shared` computes on the host, within begin_step(), and nobody uses it but simulated runners.
  /// `on_begin` is called with the weights of each step, by shard, when it begins, and `on_loss` with the
  /// loss of each step that is computed; both may be empty. `skips`: its owner may skip steps.
  simulated_runner(std::shared_ptr<step_runner> shared, step_delays delays,
                   std::function<void(std::span<const float* const>)> on_begin = {},
                   std::function<void(float)> on_loss = {}, bool skips = false)
      : shared_(std::move(shared)), delays_(std::move(delays)), on_begin_(std::move(on_begin)),
        on_loss_(std::move(on_loss)), skips_(skips) {}

  std::shared_ptr<gradient> make_gradient() const override { return shared_->make_gradient(); }
  void on_end(std::function<void()> notice) override { notice_ = std::move(notice); }
  void use_host_weights(std::uint32_t shard, const float* values, std::shared_ptr<const void>) override {
    if (weights_.size() <= shard) weights_.resize(shard + 1);
    weights_[shard] = values;
  }
  double squared_norm(const gradient& g) const override { return shared_->squared_norm(g); }
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override;
  bool computes_at_end() const noexcept override { return skips_ && !racing(); }
  void skip_step() override {
    inputs_.reset();
    out_.reset();
  }
  float end_step() override { return loss_ ? *loss_ : compute(); }
  std::string waits_for() const override { return "the end of a simulated step"; }

  // What thousands of workers read at the ends of their steps is more than caches hold. Whoever knows that an
  // end comes calls these before: they begin to fetch what it reads, and change nothing.
  void fetch_parts() const noexcept;
  void fetch_values() const noexcept; ///< a while after fetch_parts()

private:
  float compute();

  std::shared_ptr<step_runner> shared_;
  step_delays delays_;
  std::function<void(std::span<const float* const>)> on_begin_;
  std::function<void(float)> on_loss_;
  bool skips_;
  std::function<void()> notice_;
  std::uint64_t steps_ = 0;
  std::vector<const float*> weights_; ///< by shard; the worker holds them
  std::shared_ptr<const batch> inputs_;
  std::shared_ptr<gradient> out_;
  std::optional<float> loss_; ///< if it is computed already
};

} // namespace mailgrad
