#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/initialiser.hpp>
#include <mailgrad/tensor/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mailgrad {

/// A variable and where it lies in the flat vector of its model.
struct placed_variable {
  std::string name;
  shape dims;
  initialiser first_values;
  std::size_t offset = 0; ///< in floats, a multiple of 16
  bool sparse = false;    ///< a table whose gradient comes in rows
};

/// Floats begin to end - 1 of the flat vector.
struct shard_range {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const noexcept { return end - begin; }
};

/// The part of a variable that lies in one shard. All in floats.
struct variable_piece {
  std::uint32_t shard = 0;
  std::size_t offset_in_shard = 0;
  std::size_t offset_in_variable = 0;
  std::size_t length = 0;
};

/// Where the variables of a model lie in one flat vector, and how that vector is cut into shards.
///
/// Variables with dense gradients come first, tables with sparse ones last, each group in the order in which
/// the model made them. Shards are contiguous and equal in size as far as cuts allow: at cache lines, and in
/// tables between rows too. So every variable begins on a cache line of its shard, and so does every piece of
/// one. The offsets do not depend on the number of shards.
///
/// Errors  std::invalid_argument if there are no variables, one holds no weights, a scalar is said to be
///         sparse, or there are more shards than places to cut.
class parameter_layout {
public:
  /// `sparse` says for each of model.variables() whether its gradient comes in rows, and must be as long.
  parameter_layout(const graph& model, const std::vector<bool>& sparse, std::size_t shards);
  /// In the order given; where each lies is found here.
  parameter_layout(const std::vector<placed_variable>& variables, std::size_t shards);

  const std::vector<placed_variable>& variables() const noexcept { return variables_; }
  std::size_t size() const noexcept { return size_; }             ///< floats, gaps between variables included
  std::size_t dense_size() const noexcept { return dense_size_; } ///< floats before the first table
  std::size_t weight_count() const noexcept;                      ///< floats that belong to a variable

  std::size_t shard_count() const noexcept { return shards_.size(); }
  /// Errors  std::out_of_range for this and pieces(), where there is no such shard or variable.
  shard_range shard(std::size_t index) const;
  std::size_t weight_count(std::size_t shard) const;
  /// In the order of the shards.
  std::vector<variable_piece> pieces(std::size_t variable) const;

  /// Fills the weights of one shard with the first values of its variables; gaps become 0.
  ///
  /// Errors  std::invalid_argument if there is no such shard, or `values` is shorter than it.
  void initialise_shard(std::size_t index, std::uint64_t seed, std::span<float> values) const;

  /// "535818 weights in 2 shards: 267904 (50.0 %), 267914 (50.0 %)"
  std::string balance_in_words() const;

  /// Same names, shapes and places, cut alike. First values may differ.
  friend bool operator==(const parameter_layout& a, const parameter_layout& b) noexcept;

private:
  void place(const std::vector<placed_variable>& all, bool tables);
  void cut(std::size_t shards);

  std::vector<placed_variable> variables_;
  std::size_t size_ = 0;
  std::size_t dense_size_ = 0;
  std::vector<shard_range> shards_;
};

} // namespace mailgrad
