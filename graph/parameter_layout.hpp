#pragma once

#include <mailgrad/graph/graph.hpp>

namespace mailgrad {

/// A variable and its place in the flat vector of its model.
struct placed_variable {
  std::string name;
  shape dims;
  initialiser first_values;
  std::size_t offset = 0; ///< in floats, a multiple of 16
  bool sparse = false;    ///< whether it is a table whose gradient is a list of rows
};

/// Floats begin to end - 1 of the flat vector.
struct shard_range {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const noexcept { return end - begin; }
};

/// The part of a variable that lies in one shard. Offsets and length are in floats.
struct variable_piece {
  std::uint32_t shard = 0;
  std::size_t offset_in_shard = 0;
  std::size_t offset_in_variable = 0;
  std::size_t length = 0;
};

/// Where the flat vector may be cut into shards.
enum class shard_cuts : std::uint8_t {
  within_variables, ///< shards are about equally large
  between_variables ///< each variable lies whole in one shard, so shards may differ much in size
};

/// The places of a model's variables in one flat vector, and the cuts of that vector into shards.
///
/// Variables with dense gradients come first, then tables with sparse gradients, each group in the order in
/// which the model made them. Shards are contiguous and about equally large. A cut lies on a cache line, and
/// in a table also between two rows. Cuts between variables make the largest shard as small as it can be.
/// In both cases each variable, and each piece of one, begins on a cache line of its
/// shard. The offsets do not depend on the number of shards.
///
/// Errors  std::invalid_argument if there are no variables, one holds no weights, a scalar is marked as
///         sparse, or there are more shards than places to cut.
class parameter_layout {
public:
  /// `sparse` has one element for each of model.variables(): whether its gradient is a list of rows.
  parameter_layout(const graph& model, const std::vector<bool>& sparse, std::size_t shards,
                   shard_cuts where = shard_cuts::within_variables);
  /// Takes variables in the order given. Their offsets are ignored and computed anew.
  parameter_layout(const std::vector<placed_variable>& variables, std::size_t shards,
                   shard_cuts where = shard_cuts::within_variables);

  const std::vector<placed_variable>& variables() const noexcept { return variables_; }
  std::size_t size() const noexcept { return size_; }             ///< floats, gaps between variables included
  std::size_t dense_size() const noexcept { return dense_size_; } ///< floats before the first table
  std::size_t weight_count() const noexcept;                      ///< floats that belong to a variable

  shard_cuts cuts() const noexcept { return cuts_; }
  std::size_t shard_count() const noexcept { return shards_.size(); }
  /// Errors  std::out_of_range, here and in pieces(), if there is no such shard or variable.
  shard_range shard(std::size_t index) const;
  std::size_t weight_count(std::size_t shard) const;
  /// The pieces of a variable, in the order of the shards.
  std::vector<variable_piece> pieces(std::size_t variable) const;

  /// Fills the weights of one shard with the first values of its variables; gaps become 0.
  ///
  /// Errors  std::invalid_argument if there is no such shard, or `values` is shorter than the shard.
  void initialise_shard(std::size_t index, std::uint64_t seed, std::span<float> values) const;

  /// "535818 weights in 2 shards: 267904 (50.0 %), 267914 (50.0 %)". Of shards that are cut between variables
  /// it tells the bytes and the largest share too.
  std::string format_balance() const;

  /// Whether names, shapes, places and cuts are the same. First values may differ.
  friend bool operator==(const parameter_layout& a, const parameter_layout& b) noexcept;

private:
  void place(const std::vector<placed_variable>& all, bool tables);
  void cut(std::size_t shards);
  void cut_between(std::size_t shards);

  std::vector<placed_variable> variables_;
  std::size_t size_ = 0;
  std::size_t dense_size_ = 0;
  shard_cuts cuts_;
  std::vector<shard_range> shards_;
};

/// The first values of all variables, as the seed draws them: float32[layout.size()].
std::vector<float> first_weights(const parameter_layout& layout, std::uint64_t seed);

} // namespace mailgrad
