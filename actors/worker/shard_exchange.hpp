#pragma once

#include <mailgrad/actors/worker/shard_lines.hpp>
#include <mailgrad/engine/worker/gradient_comparison.hpp>

namespace mailgrad {

/// Pushes each gradient to every shard, and takes their answers as the weights of the next step.
///
/// The gradient of each `sample_gap`-th step is sent with the weights it was computed from. When the worker
/// knows the weights that it met on every shard, it computes the batch once more at these, and notes the
/// cosine of the two gradients. A switch of policy may come in between: whether the answers or the pause come
/// first makes no difference, so a replay compares what its run compared.
/// Threads those of the device actor that owns it.
class shard_exchange : public exchange {
public:
  /// `sample_gap` 0: no gradient is sampled.
  shard_exchange(const worker_context& of, shard_lines& lines, std::uint64_t sample_gap);

  void receive(const shard_weights& x) override;
  bool only_pushes() const override { return true; }
  void deliver(computed_gradient g) override;
  void receive_late(const shard_weights& x) override;
  std::shared_ptr<const batch> bind_repeat() override;
  void take_repeat(const gradient& fresh) override;

private:
  worker_context of_;
  shard_lines& lines_;
  std::uint64_t sample_gap_;
  gradient_comparison comparison_;
};

} // namespace mailgrad
