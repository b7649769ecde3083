#pragma once

#include <mailgrad/data/batch.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/engine/model/placed_model.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace mailgrad {

/// The forward pass of a model over batches of one size, as it is built for an evaluation.
///
/// Errors  as placed_model.
/// Threads one caller at a time.
class forward_pass {
public:
  /// For batches of `size` samples of the kind of `samples`. `with_loss`: the loss is computed, too. `place`
  /// outlives the pass.
  forward_pass(const model_function& build, model_request request, const parameter_layout& layout,
               const dataset& samples, std::size_t size, bool with_loss, lane& place);

  /// The logits of these samples, float32[size, outputs], for tokens of each place in their windows; they
  /// last until the next call.
  std::span<const float> run(const weight_addresses& weights, const dataset& samples,
                             std::span<const std::uint32_t> which);
  /// Whether the model reads anything of a sample; if not, it answers to all alike.
  bool reads_samples() const noexcept { return model_->reads_batches(); }
  /// The samples of the last call.
  const batch& inputs() const noexcept { return inputs_; }
  /// The loss of the last call.
  float loss();

private:
  std::size_t outputs_; ///< of the whole batch
  batch inputs_;
  std::optional<placed_model> model_;
};

/// The addresses of all weights in one flat vector, float32[layout.size()].
///
/// Errors  shape_error, naming `caller`, for another length.
weight_addresses addresses_of(const char* caller, std::span<const float> parameters,
                              const parameter_layout& layout);

} // namespace mailgrad
