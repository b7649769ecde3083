#pragma once

#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/optim/policies/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace mailgrad {

/// A gradient that a shard is about to apply, and what is known of its way here. Each span is float32[shard
/// size].
struct stale_gradient {
  rank worker{};
  std::uint64_t gap = 0;                 ///< versions between the weights read and those now
  std::span<const float> values{};       ///< the gradient,
  float scale = 1;                       ///< and what it counts with before any cure
  std::span<const float> weights{};      ///< now
  std::span<const float> weights_read{}; ///< what the worker computed the gradient from, if the cure needs it
  std::span<const float> velocity{};     ///< of the optimiser, if it has one
};

/// A cure of staleness at one shard: what a stale gradient counts with, or what is applied in its place.
///
///     gradient --compensate--> optimiser, its learning rate times factor --> weights --predict--> worker
///
/// Guarantees  without staleness nor momentum of its own a cure leaves a gradient as it is, bit for bit.
/// Threads one caller at a time; factor() from any.
class cure {
public:
  virtual ~cure() = default;

  virtual std::string_view name() const noexcept = 0;

  /// In (0, 1], 1 for a fresh gradient: the learning rate of its update counts so many times, or in a batch
  /// the gradient itself. `gap` is the version gap when it is applied.
  virtual double factor(std::uint64_t) const noexcept { return 1; }
  virtual bool has_factor() const noexcept { return false; }

  /// Whether compensate() is to be asked.
  virtual bool compensates() const noexcept { return false; }
  /// Whether that needs the weights that the worker read: a snapshot for each is then kept.
  virtual bool needs_weights_read() const noexcept { return false; }
  /// Writes what is applied in place of `g.scale * g.values`.
  virtual void compensate(const stale_gradient& g, std::span<float> applied);

  /// Whether what is applied for the gradients of a batch counts in full; else their mean is taken.
  virtual bool adds_up() const noexcept { return false; }

  /// Whether workers get predicted weights in place of the present ones.
  virtual bool predicts() const noexcept { return false; }
  /// `rate` is the learning rate of the next update. `sent` is apart from `weights`.
  virtual void predict(std::span<const float> weights, double rate, std::span<float> sent) const;

  /// Nothing more comes from this worker.
  virtual void leave(rank) {}

  /// How far a worker that keeps weights of its own draws them to those of the shard that they met; nothing:
  /// it takes the shard's.
  virtual std::optional<float> pull() const noexcept { return {}; }

  /// Floats of state for each weight of the shard, without the snapshots that compensate() needs.
  virtual std::size_t states() const noexcept { return 0; }
};

/// How each cure is written, with what it does in a few words and where it comes from.
struct cure_form {
  std::string_view text;
  std::string_view what;
  std::string_view source;
};
std::vector<cure_form> cure_forms();

/// Where a cure is to work.
struct cure_site {
  std::uint32_t workers = 1;
  std::size_t shard_size = 0;  ///< floats
  double learning_rate = 1e-3; ///< of the shard's optimiser, the largest of its schedule
};

/// "none" (null), or one of these. M workers; g the gradient, w the weights now, r those it was computed
/// from. inverse, dynsgd, polynomial:A, hinge:A,B, mishchenko, koloskova, fedbuff    step_scales.hpp
/// dc-asgd:L, dc-asgd-a:L        delay_compensation.hpp    a snapshot for each worker; -a: and 1 float a
/// weight gap-aware                     gap_aware.hpp             a snapshot for each worker and 1 float a
/// weight dana-zero:G, dana-dc:G,L      dana.hpp                  M + 1 floats a weight, and what was sent: 1
/// for each worker dana-slim:G                   dana.hpp                  M floats a weight easgd:A
/// elastic_averaging.hpp     a snapshot for each worker momentum-compensation         adapted_optimizer()
/// none A snapshot is a version that nobody may write to: one float a weight unless another worker read the
/// same.
///
/// Errors  std::invalid_argument in one line that says what would be right; std::bad_alloc.
std::unique_ptr<cure> make_cure(std::string_view text, const cure_site& site);

/// What a cure is asked to work with.
struct cure_setting {
  std::vector<std::string_view> policies;
  std::uint32_t workers = 1;
  optimizer_options optimizer{}; ///< the shard's
  std::uint64_t local_steps = 1; ///< of a worker between two exchanges
};

/// Errors  std::invalid_argument: a cure that make_cure() refuses; one that can do nothing under any of the
///         policies, since their gradients are always fresh, or no shard judges them (hogwild); one that its
///         paper defines for another optimiser or another way of training.
void require_cure(std::string_view text, const cure_setting& setting);

/// The optimiser of the shard under a cure: "momentum-compensation" takes the momentum that asynchrony brings
/// by itself, 1 - 1/M, off the one that was asked for, which may leave a negative one.
///
/// Source  Mitliagkas, Zhang, Hadjis & Re, "Asynchrony begets momentum", Allerton 2016, arXiv:1605.09774. It
///         holds for the mean under memoryless workers; a fixed delay brings no momentum.
optimizer_options adapted_optimizer(std::string_view cure, optimizer_options options, std::uint32_t workers);

} // namespace mailgrad
