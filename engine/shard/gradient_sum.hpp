#pragma once

#include <mailgrad/engine/model/coverage.hpp>
#include <mailgrad/engine/shard/parallel_update.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace mailgrad {

/// What a shard gets of several gradients, added up as they come: it takes the memory of one gradient, and of
/// tables that of the rows that occur.
///
/// shard::add_to() picks what concerns the shard.
/// Threads one caller at a time; nobody adds while result() is in use.
class gradient_sum {
public:
  /// Floats of the shard that get dense gradients.
  explicit gradient_sum(std::size_t dense_size);

  /// Forgets all, but keeps its memory.
  void clear();

  /// Adds scale * values to the floats from `begin` on.
  void add(const stream& s, float scale, std::span<const float> values, std::size_t begin);
  /// Ranges of the flat vector of the model that the sum is about, as well as those before; null: all of it.
  void cover(const std::shared_ptr<const coverage>& ranges);
  /// Adds scale * values to row `row` of a table.
  void add_row(std::size_t variable, std::int32_t row, float scale, std::span<const float> values);

  /// The sum as an update takes it, with scale 1, until the next clear().
  contribution result();

private:
  /// Rows in the order in which they first came.
  struct table {
    std::size_t variable;
    std::size_t width;
    std::vector<std::int32_t> rows;
    std::vector<float> values;
    std::unordered_map<std::int32_t, std::size_t> place; ///< in `rows`
  };

  std::shared_ptr<block> dense_;
  bool any_ = false; ///< something was added to `dense_`, which holds old values before
  bool all_ = false; ///< it is about the whole model
  coverage covered_; ///< or about this
  std::vector<table> tables_;
  std::shared_ptr<gradient> sum_;
};

} // namespace mailgrad
