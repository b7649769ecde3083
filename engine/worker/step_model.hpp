#pragma once

#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/graph/program.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <cstdint>
#include <memory>

namespace mailgrad {

/// What a worker computes its gradients with: a model on a device of its own (replica), or one that spans
/// several (spanning_replica).
///
/// Threads one caller at a time.
class step_model {
public:
  virtual ~step_model() = default;

  /// A block to compute into.
  virtual std::shared_ptr<gradient> make_gradient() const = 0;

  /// The weights of one shard, valid until the next call for it or as long as somebody holds `owner`.
  virtual void use_weights(std::uint32_t shard, const float* values, std::shared_ptr<const void> owner) = 0;

  /// Computes loss and gradient of `inputs` into `out`; calls `done` when both are there, at once or later.
  ///
  /// Errors  device_error, graph_error for a batch that the model cannot be built for.
  virtual void compute(const stream& s, std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out,
                       const completion& done) = 0;

  /// Of the last gradient that is done.
  virtual float loss() const noexcept = 0;
};

} // namespace mailgrad
