#pragma once

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/model/training_fetches.hpp>
#include <mailgrad/engine/worker/stage_rows.hpp>
#include <mailgrad/graph/placement/partition.hpp>
#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/lane.hpp>
#include <mailgrad/tensor/mark.hpp>
#include <mailgrad/tensor/memory.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mailgrad {

namespace cuda {
struct fault_word; // kernels/cuda/lane_words.hpp
}

/// The values that a segment computed of one micro-batch for other segments, in the order of
/// segment::exports.
struct value_set {
  std::vector<memory> values;
  std::vector<memory> on_host{}; ///< the same, if they lie on a card and a reader is not there
  device where{};                ///< whose memory `values` are; any core is the host
  mark ready{};                  ///< passes when they are there
};

/// What a stage contributes to the gradient of a step.
struct stage_sum {
  std::shared_ptr<const coverage> covered; ///< by the dense parts of all stages
  /// The gradient that takes the dense parts of all stages. For each variable one stage writes to its dense
  /// block; a further stage that also differentiates the variable writes to an addend of its own.
  std::shared_ptr<gradient> into;
  std::size_t own_addend = 0;         ///< the addend of this stage in `into`, if it has one
  std::vector<char> begun;            ///< by variable: whether a micro-batch has written its part
  std::vector<stage_rows> rows;       ///< the sparse parts
  std::shared_ptr<row_memory> memory; ///< `rows` points into this memory
  float loss = 0;                     ///< mean over the samples; 0 if another stage computes the loss
};

class stage_place; // stage_place.hpp

/// One micro-batch of a step.
struct micro_batch {
  std::shared_ptr<const batch> samples;
  float share = 1;          ///< its fraction of the step's samples
  bool only = true;         ///< whether the step has no other micro-batch
  std::size_t place = 0;    ///< index among the micro-batches of the step
  std::uint64_t number = 0; ///< seeds random operations
};

/// The part of a model that one of its devices computes, compiled for one size of micro-batch.
///
/// Every stage builds the whole graph and compiles only its own segments. The graphs of all stages are the
/// same, so the stages agree on the numbers of the segments and the order of their values.
/// Errors  graph_error from the model function.
/// Threads one caller at a time.
class stage_program {
public:
  /// A segment of this device.
  struct part {
    std::size_t number;             ///< in the order of all segments
    std::vector<std::size_t> reads; ///< the segments whose values it needs
    std::vector<device> readers;    ///< the other devices that need its values
  };

  /// The dense gradient of a variable, or this device's addend of it.
  struct delivery {
    std::size_t variable;
    bool further; ///< another device delivers the first addend

    auto operator<=>(const delivery&) const = default;
  };

  /// With `sums_apart`, a gradient that is a sum over several devices is delivered as its addends.
  stage_program(const model_function& build, const model_request& request, const parameter_layout& layout,
                device where, bool sums_apart = false);
  /// The same for a lane of `where`, which outlives the program.
  stage_program(const model_function& build, const model_request& request, const parameter_layout& layout,
                device where, lane& at, bool sums_apart = false);
  ~stage_program();

  std::span<const part> parts() const noexcept { return parts_; }
  /// What the dense gradient of the whole model covers.
  const std::shared_ptr<const coverage>& covered() const noexcept { return covered_; }
  /// What the further addends of this device cover; nothing without `sums_apart`.
  const std::shared_ptr<const coverage>& added() const noexcept { return added_; }
  /// The number of parts of this device that need the values of `segment`.
  std::size_t readers_of(std::size_t segment) const;
  /// The dense gradients that this device delivers.
  const std::vector<delivery>& delivered() const noexcept { return delivered_; }
  /// The same as ranges of the model's flat vector, ascending; the ranges of the weights that it may read
  /// whole; and those of the tables that it reads by rows.
  const std::vector<shard_range>& delivered_ranges() const noexcept { return delivered_ranges_; }
  const std::vector<shard_range>& weights_read() const noexcept { return weights_read_; }
  const std::vector<shard_range>& tables_read() const noexcept { return tables_read_; }
  /// The device that computes `segment`.
  device maker_of(std::size_t segment) const { return segments_.at(segment).where; }

  /// Makes memory for the values that part `i` computes for others.
  std::shared_ptr<value_set> make_values(std::size_t i) const;

  /// Computes part `i` from the values in `read`, which are in the order of part::reads. Values for other
  /// segments go to `made`; the part's gradients and loss are added to `sum`.
  void run(std::size_t i, const micro_batch& m, const weight_addresses& weights,
           std::span<const value_set* const> read, value_set& made, stage_sum& sum);
  /// Computes it, or queues it on the lane of a card, with what `with` has on the device of the stage. On a
  /// card the loss is added by whoever reads it there (loss_of()).
  void run(std::size_t i, const micro_batch& m, stage_place& with, std::span<const value_set* const> read,
           value_set& made, stage_sum& sum);
  /// Where part `i` writes the loss of a micro-batch; null if it computes none.
  const float* loss_of(std::size_t i) const;
  /// Throws what program::raise() says of a fault that part `i` has found.
  void raise(std::size_t i, const cuda::fault_word& fault) const;

private:
  struct compiled_part;

  part described(std::size_t number) const;
  std::unique_ptr<compiled_part> compiled(std::size_t number, const parameter_layout& layout,
                                          const model_request& request) const;

  void find_ranges(const parameter_layout& layout);

  lane* at_;
  device where_;
  std::unique_ptr<graph> graph_;
  training_fetches wanted_;
  std::shared_ptr<const coverage> covered_;
  std::shared_ptr<const coverage> added_;
  std::vector<segment> segments_;
  std::vector<part> parts_;
  std::vector<delivery> delivered_; ///< ascending
  std::vector<shard_range> delivered_ranges_, weights_read_, tables_read_;
  std::vector<std::unique_ptr<compiled_part>> compiled_;
};

/// The fetches as values to deliver. The row numbers of a sparse gradient come from the segment that computes
/// its rows.
std::vector<wanted_value> wanted_values(const training_fetches& fetches);

} // namespace mailgrad
