#pragma once

#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/optimizer.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace mailgrad {

/// How a worker trains between two exchanges with the shards.
struct local_steps_options {
  std::uint64_t steps = 0;       ///< of its own between two exchanges; 0: each gradient goes to the shards
  optimizer_options optimizer{}; ///< of those steps; its state stays with the worker
  /// EASGD's A: the worker keeps weights of its own, drawn to those of the shards that they met, and
  /// exchanges before a step whose gradient it has, not after one.
  std::optional<float> pull{};
};

/// A worker's own weights: steps are taken here, and the shards get the difference in place of a gradient, as
/// if it were one. An outer optimiser of SGD with learning rate 1 thus averages models.
///
/// Source  Stich, "Local SGD converges fast and communicates little", ICLR 2019, arXiv:1805.09767; with an
///         outer Nesterov momentum: Douillard et al., "DiLoCo", 2023, arXiv:2311.08105.
/// Shapes  blocks of a shard are float32[its range]. A model with tables of sparse gradients is not taken.
/// Threads one caller at a time.
class local_steps {
public:
  local_steps(std::shared_ptr<const parameter_layout> layout, const local_steps_options& options);

  /// The weights of one shard, which the worker goes on from; or in answer to an elastic exchange, where its
  /// own are drawn to those that they `met`.
  void receive(std::uint32_t shard, std::shared_ptr<const block> values, const block* met = nullptr);

  /// The worker takes whatever weights come next, as all do after a switch of policy, whatever was under way.
  /// A step that is held is taken from there.
  void start_anew() noexcept;

  /// The name of the update rule.
  std::string_view rule() const noexcept { return optimizer_->name(); }

  /// float32[layout.size()]
  const float* weights() const noexcept { return own_.as<float>().data(); }

  /// One step of the worker's own by a scaled gradient.
  void step(const gradient& g, float scale);

  /// Elastic: the gradient at hand is to be held, and the shards are met at the weights it was computed from.
  bool exchanges_first() const noexcept { return options_.pull && taken_ >= options_.steps; }
  /// A step to take when all shards have answered,
  void hold(std::shared_ptr<const gradient> g, float scale);
  /// which they have.
  void go_on();

  /// Steps since the last exchange.
  std::uint64_t taken() const noexcept { return taken_; }
  bool exchange_due() const noexcept { return !options_.pull && taken_ >= options_.steps; }

  /// What the shards get: the weights they sent less the worker's own, about what its gradients cover. Begins
  /// the next round.
  std::shared_ptr<const gradient> difference();

private:
  std::shared_ptr<const parameter_layout> layout_;
  local_steps_options options_;
  std::unique_ptr<optimizer> optimizer_;
  block own_;
  std::vector<std::shared_ptr<const block>> read_; ///< by shard
  object_pool<gradient> differences_;
  std::shared_ptr<const coverage> covered_; ///< by the last step, and so by all of a round
  std::shared_ptr<const gradient> held_;
  float held_scale_ = 1;
  std::uint64_t taken_ = 0;
  std::uint64_t steps_ = 0; ///< of all rounds; the schedule goes by these, for nobody else updates `own_`
};

} // namespace mailgrad
