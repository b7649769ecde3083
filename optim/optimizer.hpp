#pragma once

#include <mailgrad/kernels/update.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace mailgrad {

/// Which update one is, counted from 1. Weights that several optimisers update, as hogwild's workers and the
/// shards do in turn, have seen more updates than each of these has made.
struct update_number {
  std::uint64_t of_weights = 1; ///< whoever made them: a schedule goes by it
  std::uint64_t of_state = 1;   ///< by this optimiser: bias corrections, periods and a user's rule go by it

  constexpr update_number() = default;
  /// Of an optimiser that alone updates its weights.
  constexpr update_number(std::uint64_t both) noexcept : of_weights(both), of_state(both) {}

  friend bool operator==(const update_number&, const update_number&) = default;
};

/// One update of a contiguous range of a shard, from the scaled sum of gradients.
struct dense_update {
  std::span<const float> weights{}; ///< version t
  std::span<float> updated{};       ///< version t+1: the memory of `weights` itself, or memory apart
  std::span<const scaled_gradient> gradients{}; ///< each float32[weights.size()]; none: a gradient of zero
  update_number step{};
  std::size_t first = 0; ///< where the range starts in the shard, in floats
  double rate = 1;       ///< what the learning rate counts with
};

/// One update of the rows that a sparse gradient touches, as in an embedding table.
struct sparse_update {
  std::span<float> weights{}; ///< float32[row_end - row_begin, width]; row r lies at (r - row_begin) * width
  std::size_t width = 0;      ///< floats in a row
  std::span<const std::int32_t> rows{}; ///< may repeat, repeats are summed; a negative one ends the list
  std::span<const float> values{};      ///< float32[rows.size(), width]
  float scale = 1;                      ///< what the gradient counts with
  update_number step{};
  std::size_t first = 0;      ///< where `weights` starts in the shard, in floats
  std::int32_t row_begin = 0; ///< this shard holds rows row_begin to row_end - 1,
  std::int32_t row_end = 0;   ///< and leaves all others alone
  double rate = 1;            ///< what the learning rate counts with
};

/// A block of optimiser state that a checkpoint keeps beside the weights.
struct optimizer_state {
  std::string_view name;   ///< "velocity"; distinct within an optimiser
  std::span<float> values; ///< float32[shard size], in the order of the weights
};

/// The update rule of one shard and the state it keeps for each weight.
///
/// Sparse updates are lazy, as in torch.optim.SparseAdam: only touched rows decay, in weight and in state,
/// and the step of a bias correction is that of the whole state, not the row's. Plain SGD adds each row as it
/// comes; a rule with state, or with a penalty on the weights, sums repeated rows first and updates each
/// once.
/// Errors  shape_error if sizes disagree or the range leaves the shard, std::invalid_argument for step 0;
///         nothing has changed then. device_error for the stream of a GPU: the state lies in host memory.
///         std::bad_alloc where update_rows() meets a longer list or a taller table than ever before; after
///         that neither function allocates.
/// Threads one caller at a time, but for what divides() says.
class optimizer {
public:
  virtual ~optimizer() = default;

  virtual std::string_view name() const noexcept = 0;
  virtual void update(const stream& s, const dense_update& work) = 0;

  /// Whether several threads may update ranges of one step that do not overlap, after prepare() for it. A
  /// rule that a user wrote was promised one thread.
  virtual bool divides() const noexcept = 0;
  /// What all ranges of a step share; update() does it if nobody has.
  virtual void prepare(update_number step, double rate) = 0;

  virtual void update_rows(const stream& s, const sparse_update& work) = 0;

  /// The learning rate of update `step` of the weights, counted from 1, as the schedule has it.
  virtual double learning_rate(std::uint64_t step) const = 0;

  /// The state itself, to be saved, compared or restored; empty for plain SGD.
  virtual std::vector<optimizer_state> state() = 0;

protected:
  optimizer() = default;
  optimizer(const optimizer&) = default;
  optimizer& operator=(const optimizer&) = default;
};

/// The optimiser of a shard of `shard_size` floats.
///
/// Errors  std::invalid_argument as require_valid() has it; std::bad_alloc.
std::unique_ptr<optimizer> make_optimizer(const optimizer_options& options, std::size_t shard_size);

} // namespace mailgrad
