#pragma once

#include <mailgrad/files/archive.hpp>
#include <mailgrad/kernels/update.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/tensor/memory.hpp>

namespace mailgrad {

/// One step of a user's rule: the counterpart of `update_rule` in kernels/update.hpp.
struct custom_update {
  const mailgrad_rule* table = nullptr;
  std::span<const double> settings{};
  double learning_rate = 0;
  std::uint64_t step = 1; ///< counts from 1
};

/// update() and update_rows() of kernels/update.hpp, with the same shapes, errors and threads, on the host
/// only. The rule is given summed gradients, with the penalty applied unless the rule prepares gradients
/// itself. Rows must be distinct (row_sum makes them so), because narrow rows are updated several at a time.
void update(const stream& s, const custom_update& rule, const weight_penalty& penalty,
            const weight_update& work, std::span<float* const> state);
void update_rows(const stream& s, const custom_update& rule, const weight_penalty& penalty,
                 const row_update& work, std::span<float* const> state);

/// The number of an update, counted from 1. Several optimisers may update the same weights, as hogwild's
/// workers do. The weights have then seen more updates than any one of these optimisers has made.
struct update_number {
  std::uint64_t of_weights = 1; ///< counts the updates of all optimisers; the schedule uses it
  std::uint64_t of_state = 1;   ///< counts those of this one; bias corrections, periods, users' rules use it

  constexpr update_number() = default;
  /// For an optimiser that is the only one to update its weights.
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
  double rate = 1;       ///< factor on the learning rate
  float share = 1;       ///< factor on the sum of the gradients: 1/N for a mean of N
};

/// One update of the rows that a sparse gradient touches, as in an embedding table. On a GPU `gradients`
/// stand in place of `rows`, `values` and `scale`.
struct sparse_update {
  std::span<float> weights{}; ///< float32[row_end - row_begin, width]; row r lies at (r - row_begin) * width
  std::size_t width = 0;      ///< floats in a row
  std::span<const std::int32_t> rows{}; ///< may repeat, repeats are summed; a negative one ends the list
  std::span<const float> values{};      ///< float32[rows.size(), width]
  float scale = 1;                      ///< factor on the gradient
  update_number step{};
  std::size_t first = 0;      ///< where `weights` starts in the shard, in floats
  std::int32_t row_begin = 0; ///< the first row that this shard holds; rows of other shards are skipped
  std::int32_t row_end = 0;   ///< one past the last row that this shard holds
  double rate = 1;            ///< factor on the learning rate
  std::span<const row_gradient> gradients{}; ///< on a GPU: all that are updated with, for its kernels
  void* scratch = nullptr;                   ///< on a GPU: row_update_bytes() of `gradients`
};

/// A block of optimiser state that a checkpoint keeps beside the weights.
struct optimizer_state {
  std::string_view name; ///< "velocity"; distinct within an optimiser
  /// float32[shard size], in the order of the weights, unless a rule of whole variables says otherwise; for
  /// kernels of its device queue
  std::span<float> values;
};

/// The update rule of one shard and the state it keeps for each weight.
///
/// Sparse updates are lazy, as in torch.optim.SparseAdam: the weights and states of untouched rows do not
/// decay. A bias correction counts the steps of the whole state, not those of the row. Plain SGD adds each
/// row as it comes; a rule with state, or with a penalty on the weights, first sums repeated rows. On a GPU
/// all rules do.
/// Errors  shape_error if sizes disagree or the range leaves the shard, std::invalid_argument for step 0;
///         nothing has changed then. device_error for a stream of another device than that of the state, and
///         for a user's rule on a GPU. std::bad_alloc from update_rows() for a longer list or a
///         taller table than any before; no other update allocates. A rule that looks at whole variables
///         updates ranges of whole ones, and reads no gradient in rows unless its header says so: shape_error
///         and std::invalid_argument.
/// Threads one caller at a time, unless divides() allows more.
class optimizer {
public:
  virtual ~optimizer() = default;
  std::string_view name() const noexcept { return mailgrad::name(options_); }
  virtual void update(const stream& s, const dense_update& work) = 0;
  /// Whether several threads may update disjoint ranges of one step after prepare() for that step. False for
  /// a user's rule and one of whole variables, which run on one thread at a time.
  virtual bool divides() const noexcept = 0;
  /// Computes what all ranges of a step share; update() does so itself if this was not called before.
  virtual void prepare(update_number step, double rate) = 0;
  virtual void update_rows(const stream& s, const sparse_update& work) = 0;
  /// The learning rate that the schedule gives update `step` of the weights, counted from 1.
  double learning_rate(std::uint64_t step) const {
    return mailgrad::learning_rate(options_.schedule, base_learning_rate(options_), step);
  }
  /// The state itself, to be compared; empty for plain SGD.
  virtual std::vector<optimizer_state> state() = 0;
  /// Writes or reads the state, which lies where `at` allocates, as keep_floats() does.
  virtual void keep(archive& a, device_queue& at) = 0;

protected:
  optimizer(const optimizer_options& options, std::size_t size) : options_(options), size_(size) {}
  optimizer(const optimizer&) = default;
  optimizer& operator=(const optimizer&) = default;
  /// Of `count` weights of the shard, from `first` on.
  void require_range(std::size_t first, std::size_t count, update_number step) const;

  optimizer_options options_;
  std::size_t size_; ///< of the shard, in floats
};

/// The optimiser of a shard of `shard_size` floats. Its state lies where `at` allocates, on the host unless
/// given. `variables` are those of the shard, whole, for a rule that sees_whole_variables().
/// Errors  std::invalid_argument as require_valid() has it, or if such a rule is told of no variables;
///         std::bad_alloc; device_error, also for such a rule or a user's on a GPU.
std::unique_ptr<optimizer> make_optimizer(const optimizer_options& options, std::size_t shard_size,
                                          device_queue& at, std::vector<shard_variable> variables = {});
inline std::unique_ptr<optimizer> make_optimizer(const optimizer_options& options, std::size_t shard_size) {
  host_queue here;
  return make_optimizer(options, shard_size, here);
}

/// Rows of a table and their values; row 0 is the first row of the shard's part.
struct row_list {
  std::span<const std::uint32_t> rows;
  std::span<const float> values;
};

/// Picks a shard's rows out of a sparse gradient, and sums those that come more than once.
///
/// Rows stay in the order in which they first come, so the same gradient gives the same bits.
/// Errors  shape_error if there are too few values, or the weights do not hold the rows.
/// Threads one caller at a time; a list is valid until the next call.
class row_sum {
public:
  /// Every row of the shard, repeats and all.
  row_list as_they_come(const sparse_update& work) { return of_shard(work, false); }
  /// Every row of the shard once.
  row_list distinct(const sparse_update& work) { return of_shard(work, true); }

private:
  row_list of_shard(const sparse_update& work, bool sums_repeats);

  std::vector<std::uint32_t> rows_;
  std::vector<float> values_;
  std::vector<std::uint32_t> place_; ///< by row: 1 + its index in `rows_`, or 0 if it is not there
};

} // namespace mailgrad
