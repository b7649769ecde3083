#pragma once

#include <mailgrad/engine/worker/delayed_runner.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mailgrad {

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
  void use_host_weights(std::uint32_t shard, const float* values, std::shared_ptr<const void> owner) override;
  double squared_norm(const gradient& g) const override { return shared_->squared_norm(g); }
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override;
  bool computes_at_end() const noexcept override { return skips_ && !racing(); }
  void skip_step() override;
  float end_step() override;
  std::string waits_for() const override { return "the end of a simulated step"; }

  // What thousands of workers read at the ends of their steps is more than caches hold. Whoever knows that an
  // end comes calls these before: they begin to fetch what it reads, and change nothing.
  void fetch_parts() const noexcept;
  /// A while after fetch_parts().
  void fetch_values() const noexcept;

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
