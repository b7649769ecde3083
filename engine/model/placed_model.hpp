#pragma once

#include <mailgrad/data/batch.hpp>
#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/kernels/cuda/card_lane.hpp>
#include <mailgrad/tensor/lane.hpp>

#include <cstddef>
#include <optional>
#include <vector>

namespace mailgrad {

/// A model compiled for a lane, whose batches come from the host, and whose fetched values are read there.
///
///     batch -> pinned memory | copy, kernels, copy back | wait | fetched values
///
/// On the host a run reads the batch where it is. On a card it takes the steps above and waits for the last
/// one, so no actor may run it but one with a thread of its own.
/// Errors  as bound_model; device_error. run: std::out_of_range as program; graph_error for other samples.
/// Threads one caller at a time.
class placed_model {
public:
  /// `place` outlives the model.
  placed_model(const model_function& build, const model_request& request, const parameter_layout& layout,
               const bound_model::choose_fetches& choose, lane& place);
  /// Waits for a run that has failed half-way.
  ~placed_model();
  placed_model(const placed_model&) = delete;
  placed_model& operator=(const placed_model&) = delete;

  /// The weights lie where the lane's kernels read them.
  void run(const batch& inputs, const weight_addresses& weights);
  /// What the last run computed. It lasts until the next one.
  const float* fetched(std::size_t index);
  /// Whether the fetched values depend on the batch.
  bool reads_batches() const noexcept { return !model_->sources().inputs().empty(); }

private:
  /// A value that is fetched: on the card, and on the host.
  struct fetched_value {
    const void* on_card;
    std::size_t bytes, offset; ///< in the pinned memory of all
  };
  /// What a run on a card needs besides.
  struct card_part {
    cuda::card_lane& place;
    cuda::pinned_block staged; ///< the inputs, as they lie on the card
    memory inputs;
    std::vector<fetched_value> values;
    cuda::pinned_block seen; ///< these values
  };

  card_part part_on(cuda::card_lane& place, std::size_t fetches);
  void run_on_card(const batch& inputs, const weight_addresses& weights);

  std::optional<bound_model> model_;
  std::optional<card_part> card_; ///< none: on the host
};

} // namespace mailgrad
