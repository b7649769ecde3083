#pragma once

#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>
#include <mailgrad/tensor/memory.hpp>

#include <array>

namespace mailgrad {

/// A gradient that a shard is about to apply, with what a cure may need. Each span is float32[shard size].
struct stale_gradient {
  rank worker{};
  std::uint64_t gap = 0;                 ///< versions between the weights read and the present ones
  std::span<const float> values{};       ///< the gradient
  float scale = 1;                       ///< factor on the gradient before any cure
  std::span<const float> weights{};      ///< the present weights
  std::span<const float> weights_read{}; ///< the weights the worker used, if the cure needs them
  std::span<const float> velocity{};     ///< the optimiser's, if it has one
};

/// The weights of a shard that a worker is about to get. Each span is float32[shard size].
struct weights_to_send {
  std::span<const float> weights{};
  double rate = 0;                   ///< the learning rate of the next update
  std::span<const float> velocity{}; ///< the optimiser's, if it has one
};

/// The gradient, the present weights and the weights read: the inputs of a functor that compares weights.
inline std::array<const float*, 3> reads_of(const stale_gradient& g) {
  return {g.values.data(), g.weights.data(), g.weights_read.data()};
}

/// How a user writes a cure, what it does in a few words, and its paper.
struct cure_form {
  std::string_view text;
  std::string_view what;
  std::string_view source;
};

/// The training setup that a cure must suit.
struct cure_setting {
  std::vector<policy_spec> policies;
  std::uint32_t workers = 1;
  optimizer_options optimizer{}; ///< the shard's
  std::uint64_t local_steps = 1; ///< of a worker between two exchanges
};

/// Throws "cure 'gap-aware': why"; `text` is what the user wrote, here and below.
[[noreturn]] inline void refuse_cure(std::string_view text, const std::string& why) {
  throw std::invalid_argument("cure '" + std::string(text) + "': " + why);
}

/// Requires at least one policy whose gradients may be stale, so that there is something to cure.
/// Errors  std::invalid_argument.
inline void require_staleness(std::string_view text, const cure_setting& setting) {
  std::string names;
  for (const policy_spec& policy : setting.policies) {
    if (policy.traits().needs_shards && !policy.traits().always_fresh) return;
    names += (names.empty() ? "" : ", ") + policy.text();
  }
  refuse_cure(text, !setting.policies.front().traits().needs_shards
                        ? "under " + setting.policies.front().text() + " no shard sees a gradient; take async"
                        : "under " + names + " every gradient is fresh, so there is nothing to cure");
}

/// The shard at which a cure works.
struct cure_site {
  std::uint32_t workers = 1;
  std::size_t shard_size = 0;  ///< floats
  double learning_rate = 1e-3; ///< of the shard's optimiser, the largest of its schedule
  std::shared_ptr<device_queue> at = std::make_shared<host_queue>(); ///< the shard's: all spans lie there
  optimizer_options optimizer{};                                     ///< the shard's
  /// Those of the shard, if all lie whole in it; else none.
  std::vector<shard_variable> variables{};
};

/// A cure of staleness at one shard: it scales a stale gradient, or replaces it by another one.
///
///     gradient --compensate--> optimiser, its learning rate times factor --> weights --predict--> worker
///
/// Guarantees  a cure without a momentum of its own leaves a fresh gradient unchanged, bit for bit. Elastic
///         averaging and heading correction are the exceptions: they replace each movement, fresh or not.
/// Threads one caller at a time; factor() may be called from any thread.
class cure {
public:
  virtual ~cure() = default;
  virtual std::string_view name() const noexcept = 0;

  /// The factor, in (0, 1], on the learning rate of the gradient's update; in a batch, on the gradient
  /// itself. It is 1 for a fresh gradient. `gap` is the version gap when the gradient is applied.
  virtual double factor(std::uint64_t) const noexcept { return 1; }
  virtual bool has_factor() const noexcept { return false; }

  /// Whether the shard must call compensate().
  virtual bool compensates() const noexcept { return false; }
  /// Whether compensate() needs the weights that the worker read; the shard then keeps a snapshot for each.
  virtual bool needs_weights_read() const noexcept { return false; }
  /// Writes into its second argument the gradient to apply in place of `g.scale * g.values`.
  virtual void compensate(const stale_gradient&, std::span<float>) {}

  /// Whether the compensated gradients of a batch are summed; if not, their mean is taken.
  virtual bool adds_up() const noexcept { return false; }

  /// Whether workers are sent predicted weights in place of the present ones.
  virtual bool predicts() const noexcept { return false; }
  /// Computes from the weights those that are sent in their place. No two spans overlap.
  virtual void predict(const weights_to_send&, std::span<float>) const {}

  /// Whether it compares whole variables. Shards are then cut between variables, and lie on the host.
  virtual bool sees_variables() const noexcept { return false; }

  /// This worker sends no more gradients.
  virtual void leave(rank) {}

  /// The factor with which a worker pulls its own weights to those of the shard at an exchange. Without one
  /// the worker takes the shard's weights.
  virtual std::optional<float> pull() const noexcept { return {}; }

  /// Checks that the cure suits the training setup. `text` is what the user wrote.
  /// Errors  std::invalid_argument: the cure has no effect under any of the policies, because their gradients
  ///         are always fresh or no shard judges them; or its paper defines no form for this setup.
  virtual void require_fits(std::string_view text, const cure_setting& setting) const {
    require_staleness(text, setting);
  }

  /// The optimiser that the shard uses under this cure in place of the one that the user chose.
  virtual optimizer_options adapted(optimizer_options asked, [[maybe_unused]] std::uint32_t workers) const {
    return asked;
  }

  /// The number of floats of state for each weight of the shard, not counting snapshots.
  virtual std::size_t states() const noexcept { return 0; }

  /// Writes or reads the state of the cure, for checkpoints. A run with checkpoints refuses a cure without
  /// it.
  /// Errors  std::invalid_argument: the cure has none; those of archive.
  virtual void keep(archive&) {
    throw std::invalid_argument("cure '" + std::string(name()) + "' cannot be kept in a checkpoint");
  }
};

// Requirements that several cures share, besides require_staleness(). `text` is what the user wrote.

/// For cures whose steps are defined one gradient at a time.
inline void require_single_gradients(std::string_view text, const cure_setting& setting) {
  for (const policy_spec& policy : setting.policies)
    if (!policy.traits().needs_shards || policy.traits().makes_batches)
      refuse_cure(text, "under " + policy.text() +
                            " an update is no single gradient; take async, ssp, dssp or ringmaster");
}

/// For cures that undo an effect of asynchrony: every policy must be asynchronous. `why` is what they would
/// do under another one, such as "it would take momentum away".
inline void require_always_stale(std::string_view text, const cure_setting& setting, std::string_view why) {
  for (const policy_spec& policy : setting.policies)
    if (!policy.traits().needs_shards || policy.traits().always_fresh)
      refuse_cure(text, "under " + policy.text() + " " + std::string(why) + "; take async alone");
}

/// For cures of the differences that workers with local steps send: there must be some.
inline void require_outer_steps(std::string_view text, const cure_setting& setting) {
  if (setting.local_steps == 0)
    refuse_cure(text, "it treats what workers with local steps send; say how many steps each takes before it "
                      "meets the shards, as --local-steps 4");
}

/// For cures that look at the velocity of the outer optimiser: it is momentum or nesterov.
inline void require_outer_momentum(std::string_view text, const cure_setting& setting) {
  const auto& rule = setting.optimizer.rule;
  if (!std::holds_alternative<momentum_options>(rule) && !std::holds_alternative<nesterov_options>(rule))
    refuse_cure(text, "it looks at the outer momentum; take --outer-optimizer nesterov or momentum, not " +
                          std::string(name(setting.optimizer)));
}

/// The option that says the optimiser of the shards, for messages: "--optimizer".
inline std::string_view optimizer_option(const cure_setting& setting) noexcept {
  return setting.local_steps > 0 ? "--outer-optimizer" : "--optimizer";
}

/// The momentum of momentum or nesterov; 0 for another rule.
inline double outer_momentum(const optimizer_options& rule) noexcept {
  if (const auto* momentum = std::get_if<momentum_options>(&rule.rule)) return momentum->momentum;
  if (const auto* nesterov = std::get_if<nesterov_options>(&rule.rule)) return nesterov->momentum;
  return 0;
}

} // namespace mailgrad
