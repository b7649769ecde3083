#pragma once

#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/tensor/lane.hpp>
#include <mailgrad/tensor/memory.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mailgrad {

/// Memory for the lists of sparse gradients, one block for each. It is kept from step to step and only grows.
struct row_memory {
  std::vector<memory> blocks;
  std::size_t used = 0;         ///< blocks that this step has taken
  std::vector<memory> outgrown; ///< of a card, which would be waited for to free it

  /// On the host.
  std::byte* take(std::size_t bytes);
  /// For kernels of this lane, which is the same or of the same device in each call.
  std::byte* take(std::size_t bytes, lane& at);
};

/// The rows of one table's gradient that one segment computes of one micro-batch.
struct stage_rows {
  std::size_t variable = 0; ///< index in parameter_layout::variables()
  std::size_t micro_batch = 0;
  std::size_t segment = 0; ///< the one that computed them
  std::size_t width = 0;
  std::span<const std::int32_t> rows; ///< a negative one ends the list
  std::span<float> values;
  bool rows_in_batch = false; ///< `rows` lie in the batch, on the host
};

/// Puts lists in the order of tables, of micro-batches, then of segments, however the stages were scheduled.
void sort_lists(std::vector<stage_rows>& lists);

/// Joins the lists of each table into one, because a rule with state must see every repeat of a row at once.
///
/// The order is that of sort_lists(). The only list of a table is used in place; several are copied to
/// `memory`.
std::vector<gradient_rows> joined(std::vector<stage_rows> lists, row_memory& memory);

} // namespace mailgrad
