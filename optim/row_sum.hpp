#pragma once

#include <mailgrad/optim/optimizer.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace mailgrad {

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
  row_list as_they_come(const sparse_update& work);
  /// Every row of the shard once.
  row_list distinct(const sparse_update& work);

private:
  std::vector<std::uint32_t> rows_;
  std::vector<float> values_;
  std::vector<std::uint32_t> place_; ///< by row: 1 + its index in `rows_`, or 0 if it is not there
};

} // namespace mailgrad
