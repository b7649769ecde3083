#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/engine/worker/step_runner.hpp>
#include <mailgrad/engine/worker/steps_under_way.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace mailgrad {

/// What a device actor lends to its exchanges. It outlives them.
struct worker_context {
  caf::event_based_actor* self;
  run_id run;
  rank worker;
  incarnation life;
  step_runner& runner;
  worker_report& report;
  const time_source& time;
  trace_track* trace;                     ///< null if no timeline is made
  const steps_under_way* steps = nullptr; ///< of the worker; null: none can be, while it gets weights
};

/// A gradient that the worker has computed.
struct computed_gradient {
  std::shared_ptr<gradient> values; ///< null if the step was skipped
  float scale = 1;                  ///< by which clipping multiplies it; 1 if it is not clipped
  instant at{0};                    ///< when it had been computed, or its step had begun if it is pushed then
  /// On forward, backward and clipping; of an earlier step if it is pushed when it begins.
  std::optional<instant> spent{};
  std::size_t samples = 0; ///< of its batch
};

/// What a worker has trained.
struct trained_work {
  std::uint64_t batches = 0;
  std::uint64_t samples = 0; ///< in these
};

/// How the gradients of a worker become weights, and how the worker gets the weights of its next step. There
/// are four classes: over the shards (shard_exchange), the same after a sum with the gradients of all other
/// workers (summed_exchange), by local steps with a push every few steps (local_exchange), and into a block
/// that all workers share (block_exchange).
///
/// The device actor calls bind() before a step and deliver() after it. receive() takes the answers of the
/// shards; shard_lines counts those that are still missing.
/// Errors   std::runtime_error: an update rule of the worker's own failed.
/// Threads  those of the device actor that owns it.
class exchange {
public:
  virtual ~exchange() = default;

  /// Takes the weights of one shard.
  virtual void receive(const shard_weights& x) = 0;
  /// Takes an answer that a pause has overtaken. Its weights are out of date.
  virtual void receive_late([[maybe_unused]] const shard_weights& x) {}
  /// Called when all shards have answered and another step follows: does what has waited for the answers.
  virtual void go_on() {}
  /// Lays out the weights of the next step for the runner.
  virtual void bind() {}
  /// Pushes the gradient, applies it, or keeps it.
  virtual void deliver(computed_gradient g) = 0;
  /// Whether deliver() does nothing but push a gradient, and never reads it.
  virtual bool only_pushes() const { return false; }
  /// Whether a gradient that was delivered is being added up with those of other workers. The step has not
  /// ended before take_sum().
  virtual bool is_summing() const { return false; }
  virtual void take_sum([[maybe_unused]] const gradients_summed& x) {}
  /// The worker ends; nothing more is delivered.
  virtual void leave() {}
  /// Pushes what is kept. Returns true if there was anything, so that the shards will answer.
  virtual bool flush() { return false; }
  /// Whether a step is computed, and go_on() takes it.
  virtual bool holds_step() const { return false; }
  /// The policy is about to change. No step is under way, and all shards will send new weights.
  virtual void pause() {}

  /// Writes or reads what outlives a step, for checkpoints.
  virtual void keep(archive&) {}

  /// Binds weights and returns a batch to compute once more at these; null: none.
  virtual std::shared_ptr<const batch> bind_repeat() { return nullptr; }
  /// Takes the gradient of that batch. Binds the weights of the next step again.
  virtual void take_repeat([[maybe_unused]] const gradient& fresh) {}
};

/// Makes an update by a worker's own rule. An exception gets the name of the rule.
template <class Update>
void update_by_rule(std::string_view rule, const Update& update) {
  try {
    update();
  } catch (const std::exception& e) {
    throw std::runtime_error("rule '" + std::string(rule) + "': " + e.what());
  }
}

} // namespace mailgrad
