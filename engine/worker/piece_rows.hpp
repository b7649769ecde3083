#pragma once

#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/tensor/block.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mailgrad {

/// Memory for rows of tables' gradients, list by list. Grows; kept from step to step.
struct row_memory {
  std::vector<block> blocks;
  std::size_t used = 0;

  std::byte* take(std::size_t bytes);
};

/// Rows of the gradient of one table, of one micro-batch.
struct piece_rows {
  std::size_t variable = 0; ///< index in parameter_layout::variables()
  std::size_t micro_batch = 0;
  std::size_t segment = 0; ///< that computed them
  std::size_t width = 0;
  std::span<const std::int32_t> rows; ///< a negative one ends the list
  std::span<float> values;
};

/// One list for each table, in the order of micro-batches and segments, whoever was first to compute them: a
/// rule with state must see every repeat of a row at once. A list that comes alone is used where it lies,
/// others are copied to `memory`.
std::vector<gradient_rows> joined(std::vector<piece_rows> lists, row_memory& memory);

} // namespace mailgrad
