#pragma once

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/model/model_layout.hpp>
#include <mailgrad/engine/model/training_fetches.hpp>
#include <mailgrad/engine/model/weight_reads.hpp>
#include <mailgrad/kernels/cuda/card_lane.hpp>
#include <mailgrad/kernels/cuda/handles.hpp>
#include <mailgrad/kernels/cuda/kept_graphs.hpp>
#include <mailgrad/kernels/cuda/lane_words.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace mailgrad {

/// A model for one batch size, compiled for a lane of a card. It has several sets of inputs, each with the
/// same bytes side by side in pinned memory and on the card: while a step reads one set, the batch of the
/// next step goes to another. Each set has the record of the step that reads it. The rows of its gradients of
/// tables lie side by side on the card, too.
///
/// Errors   compile: as bound_model; device_error for lack of memory.
/// Threads  one caller at a time.
class card_program {
public:
  /// `place` outlives the program, and is a lane of the first of the request's devices.
  /// `rows_there`: gradients have the rows of tables on the card.
  card_program(const model_function& build, const model_request& request, const parameter_layout& layout,
               cuda::card_lane& place, std::size_t sets, bool rows_there = false);

  std::size_t sets() const noexcept { return inputs_.size(); }
  /// The record that a step with this set writes, which others may hold as well.
  const std::shared_ptr<cuda::step_record>& record_of(std::size_t set) const { return inputs_[set].record; }

  /// Binds what every step of this program uses.
  void bind(const float* weights, float* loss, const parameter_layout& layout);

  /// Writes a batch to the pinned memory of a set, of which no copy is under way.
  ///
  /// Errors  graph_error for a batch of other samples.
  void stage(std::size_t set, const batch& inputs);
  /// Queues the copy of a set to the card on the lane.
  void send(std::size_t set);
  /// Queues it beside the lane, when no step reads this set. Returns a mark that passes when it is done.
  mark send_beside(std::size_t set, cuda::copy_stream& beside);
  /// Lets the runs from now on read this set, and write the dense gradient, float32[dense_size], to
  /// `gradient`.
  /// Returns what says which memory they use.
  cuda::kept_graphs::key use(std::size_t set, float* gradient);

  /// What a step reads of the weights.
  const weight_reads& reads() const noexcept { return reads_; }
  /// Where numbers of a batch lie on the card once it has come to this set.
  const std::int32_t* numbers_on_card(std::size_t set, const batch_part& part, const batch& of) const {
    return reinterpret_cast<const std::int32_t*>(part_on_card(set, part, of));
  }

  /// Whether the model has tables.
  bool has_rows() const noexcept { return !list_.sparse.empty(); }
  /// Gives a gradient of `out.source` memory for the rows of this program's tables.
  void prepare(gradient& out) const;
  /// Queues the copy of these rows to the gradient, behind a step with this set.
  void fetch_rows(std::size_t set, gradient& out) const;

  program& code() { return model_.code(); }
  const std::shared_ptr<const coverage>& covered() const { return covered_; }

private:
  struct input_set {
    cuda::pinned_block staged;
    memory on_card;
    std::shared_ptr<cuda::step_record> record; ///< in pinned memory
  };

  /// Where the rows of one table lie, in bytes: values and row numbers, unless the batch has these on the
  /// host.
  struct rows_place {
    std::size_t values, rows;
  };

  void place_rows();
  void prepare_on_host(gradient& out) const;
  void prepare_on_card(gradient& out) const;
  const std::byte* part_on_card(std::size_t set, const batch_part& part, const batch& of) const;
  std::byte* address_of(std::size_t set) { return inputs_[set].on_card.on<std::byte>(lane_.where()).data(); }
  const std::byte* address_of(std::size_t set) const {
    return inputs_[set].on_card.on<std::byte>(lane_.where()).data();
  }

  cuda::card_lane& lane_;
  bool rows_there_;
  training_fetches list_;
  bound_model model_;
  weight_reads reads_;
  std::shared_ptr<const coverage> covered_; ///< by the gradients that are fetched
  std::vector<input_set> inputs_;
  std::vector<rows_place> places_; ///< of each gradient of a table
  memory rows_;                    ///< of all of them, on the card
  mark
      zeroed_; ///< of the sets' memory on the card, until a copy beside the lane has been told to wait for it
};

} // namespace mailgrad
