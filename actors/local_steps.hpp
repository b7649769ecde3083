#pragma once

#include <mailgrad/actors/gradient.hpp>
#include <mailgrad/actors/recycled.hpp>
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
  std::optional<float> pull{};   ///< EASGD's A: the worker keeps weights of its own, drawn to the shards'
};

/// A worker's own weights: steps are taken here, and the shards get the difference in place of a gradient, as if it
/// were one. An outer optimiser of SGD with learning rate 1 thus averages models.
///
/// Source  Stich, "Local SGD converges fast and communicates little", ICLR 2019, arXiv:1805.09767; with an outer
///         Nesterov momentum: Douillard et al., "DiLoCo", 2023, arXiv:2311.08105.
/// Shapes  blocks of a shard are float32[its range]. A model with tables of sparse gradients is not taken.
/// Threads one caller at a time.
class local_steps {
public:
  local_steps(std::shared_ptr<const parameter_layout> layout, const local_steps_options& options);

  /// The weights of one shard: those the worker goes on from, or in answer to an exchange those its own are drawn to.
  void receive(std::uint32_t shard, std::shared_ptr<const block> values);

  /// The worker takes whatever weights come next, as all do after a switch of policy, whatever was under way.
  void start_anew() noexcept;

  /// float32[layout.size()]
  const float* weights() const noexcept { return own_.as<float>().data(); }

  /// One step of the worker's own by a scaled gradient.
  void step(const gradient& g, float scale);

  /// Steps since the last exchange.
  std::uint64_t taken() const noexcept { return taken_; }
  bool exchange_due() const noexcept { return taken_ >= options_.steps; }

  /// What the shards get: the weights they sent less the worker's own, about what its gradients cover. Begins the next
  /// round.
  std::shared_ptr<const gradient> difference();

private:
  std::shared_ptr<const parameter_layout> layout_;
  local_steps_options options_;
  std::unique_ptr<optimizer> optimizer_;
  block own_;
  std::vector<std::shared_ptr<const block>> read_; ///< by shard
  recycled<gradient> differences_;
  std::shared_ptr<const coverage> covered_; ///< by the last step, and so by all of a round
  std::uint64_t taken_ = 0;
  std::uint64_t steps_ = 0; ///< of all rounds
};

} // namespace mailgrad
