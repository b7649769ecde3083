#pragma once

#include <mailgrad/engine/account/actor_reports.hpp>
#include <mailgrad/engine/model/gradient.hpp>

#include <stdexcept>

namespace mailgrad {

/// Where a shard is for which a worker on a GPU computes gradients. Another GPU counts as the host.
enum class weight_place : std::uint8_t { host, same_gpu };

/// Where all of them are: in one place, or each in its own.
class weight_places {
public:
  weight_places(weight_place all) : all_(all) {}
  weight_places(std::vector<weight_place> by_shard) : by_shard_(std::move(by_shard)) {}

  bool on_gpu(std::uint32_t shard) const {
    return (shard < by_shard_.size() ? by_shard_[shard] : all_) == weight_place::same_gpu;
  }
  std::vector<bool> on_gpu_by_shard(std::size_t shards) const {
    std::vector<bool> near(shards);
    for (std::uint32_t s = 0; s < shards; ++s) near[s] = on_gpu(s);
    return near;
  }

private:
  weight_place all_ = weight_place::host;
  std::vector<weight_place> by_shard_;
};

/// The weights of a shard for a step on several devices: values on the host, or a snapshot on their GPU.
struct weight_view {
  const float* values = nullptr;
  std::shared_ptr<const void> owner;
  snapshot on_gpu{};
};

/// The cosine of the angle between two gradients of the same mini-batch, over all their values.
///
/// Exactly 1 if they are the same; none if one is zero or not finite, or if they list different rows.
std::optional<double> cosine(const gradient& a, const gradient& b);
/// The same from the inner products of a with b, with itself, and of b with itself.
std::optional<double> cosine(double product, double squares_a, double squares_b);

/// Compares a pushed gradient with a fresh one of its batch, at the weights to which each shard applied it.
class gradient_comparison {
public:
  explicit gradient_comparison(std::size_t shards) : weights_(shards) {}
  /// Begins a comparison; the one before is dropped if its weights never came.
  void begin(step_number step, std::shared_ptr<const gradient> stale) {
    forget();
    step_ = step;
    stale_ = std::move(stale);
  }
  /// Takes the weights that `shard` applied the gradient of `step` to. Those of another step are ignored.
  void take(shard_index shard, step_number step, snapshot weights) {
    if (!stale_ || step != step_ || weights_[shard.value]) return;
    weights_[shard.value] = std::move(weights);
    --missing_;
  }
  void forget();
  /// Whether a comparison has begun and the weights of all shards have come.
  bool ready() const noexcept { return stale_ && missing_ == 0; }
  const std::shared_ptr<const gradient>& stale() const noexcept { return stale_; }
  const snapshot& weights(shard_index shard) const { return weights_[shard.value]; }
  step_number step() const noexcept { return step_; } ///< the step whose gradient is compared

private:
  step_number step_;
  std::shared_ptr<const gradient> stale_;
  std::vector<snapshot> weights_; ///< by shard
  std::size_t missing_ = 0;
};

/// From when until when a device computed, by a clock of its own.
struct device_span {
  instant begin{0};
  instant end{0};
};

/// Whether a step has ended when the call that began it returns.
enum class step_state : std::uint8_t { finished, under_way };

/// Computes the gradients of a worker: with a model on one device (replica), or with one that spans several
/// (spanning_replica). A runner owns the stream of its device.
///
/// begin_step() begins a step. If it returns `under_way`, the step ends later, and the runner then calls the
/// notice of on_end() once, on any thread. In either case the owner calls end_step() next.
///
/// A runner with a device may take another step while one is under way, if the shards lie on the device as
/// well: at most so many as most_under_way() says. Such steps end in the order in which they were begun.
/// Their gradients may be pushed at once, since whoever reads one waits on the device for gradient::ready.
/// Threads  one caller at a time; the notice may come on any thread. A runner is destroyed only after the
///          steps that are under way have ended, so its owner keeps it until then.
class step_runner {
public:
  virtual ~step_runner() = default;
  virtual std::shared_ptr<gradient> make_gradient() const = 0;
  /// Sets the notice, before the first step. The runner calls it when a step that was under way has ended, or
  /// when the runner is broken and can compute no more steps. The notice may only send a message.
  virtual void on_end([[maybe_unused]] std::function<void()> notice) {}

  /// Sets the weights of one shard for the next steps. The worker holds them until the next call for that
  /// shard, and while a step is under way. A runner that runs ahead holds those of its steps itself, each
  /// until its step has ended, so it needs a call for each shard before each step. A runner with a queue lets
  /// it wait for `values.ready()`; one that computes on the host needs weights whose event has passed.
  /// Errors  device_error if it cannot reach them.
  virtual void use_weights(std::uint32_t shard, const snapshot& values) {
    use_host_weights(shard, values.on_host().data(), values.owner());
  }
  /// The same for weights that lie on the host, in memory of `owner`.
  virtual void use_host_weights(std::uint32_t shard, const float* values,
                                std::shared_ptr<const void> owner) = 0;
  /// Sets whether other workers write to the weights during a step (hogwild).
  void use_racing_weights(bool racing) noexcept { racing_ = racing; }
  /// Asks for squared_norm() of each gradient from now on.
  virtual void use_norms() {}
  /// The square of the norm of `g`, which the last step computed, after end_step() and use_norms().
  virtual double squared_norm(const gradient& g) const { return mailgrad::squared_norm(g); }
  /// Tells the runner, before begin_step(), that the gradient of the next step will be compared with `stale`.
  virtual void compare_with([[maybe_unused]] std::shared_ptr<const gradient> stale) {}
  /// The cosine of the angle between both, after end_step(); none as cosine() has it.
  virtual std::optional<double> cosine_to(const gradient& stale, const gradient& fresh) const {
    return cosine(stale, fresh);
  }

  /// How many steps may be under way at once. If several, gradients may be pushed before they are there.
  virtual std::size_t most_under_way() const noexcept { return 1; }
  virtual bool computes_at_once() const noexcept { return false; }
  virtual bool copies_ahead() const noexcept { return false; } ///< whether foresee() copies batches ahead

  /// Tells the runner which batch the next step is likely to compute, while a step is under way or between
  /// two. A runner may queue its copy to the device then. When the copy has run, it calls `copied` once, on
  /// any thread, unless that is empty. The notice may only send a message, and never comes if nothing was
  /// copied. The next step may still compute another batch. A runner may hold `next` until a step has begun
  /// with it, or it was told of another one.
  /// Errors  as begin_step() for that batch. A step under way still ends, and the owner begins no other.
  virtual void foresee([[maybe_unused]] std::shared_ptr<const batch> next,
                       [[maybe_unused]] std::function<void()> copied) {}

  /// Computes the loss of `inputs`, and the gradient to `out`. The owner touches neither until its end.
  /// Errors  std::invalid_argument without a sample or a gradient; graph_error for a batch that the model
  ///         cannot be built for; device_error. No step is under way then.
  virtual step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) = 0;
  /// Whether end_step() computes the step, so that skip_step() saves the work.
  virtual bool computes_at_end() const noexcept { return false; }
  /// Called in place of end_step(): nobody reads the gradient of the step.
  virtual void skip_step() {}

  /// Takes the result of a step that has ended, the oldest of those begun, and returns its loss.
  /// Errors  std::runtime_error, device_error: why the step failed, or why the runner is broken.
  virtual float end_step() = 0;
  /// When the device computed the step that end_step() took last. None: its begin and end tell as much.
  virtual std::optional<device_span> span() const { return std::nullopt; }
  /// Tells the runner that no further step is wanted. If it returns `under_way`, the steps that were begun
  /// will still end, and the owner keeps the gradients and the weights until then.
  virtual step_state give_up() { return step_state::finished; }
  /// The reports of the stages of a model that spans devices; to be called after give_up().
  virtual std::vector<stage_report> stage_reports() { return {}; }
  /// What the end of the step waits for, in words for a report.
  virtual std::string waits_for() const { return "its device"; }

protected:
  bool racing() const noexcept { return racing_; }
  /// What begin_step() requires of its arguments.
  static void require_step(const batch* inputs, const gradient* out) {
    if (!inputs || inputs->size == 0) throw std::invalid_argument("step: there is no batch to compute on");
    if (!out) throw std::invalid_argument("step: there is no gradient to compute into");
  }

private:
  bool racing_ = false;
};

} // namespace mailgrad
