#pragma once

#include <mailgrad/kernels/functors/penalised_update.hpp>
#include <mailgrad/kernels/functors/update_rule.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace mailgrad {

/// A gradient block and its factor: 1/N in a mean of N, a clip factor, or the product of both.
struct scaled_gradient {
  const float* values;
  float scale = 1;
};

/// The weights of version t, the memory for version t+1, and the gradients whose scaled sum is applied.
struct weight_update {
  std::span<const float> weights;
  std::span<float> updated; ///< the memory of `weights` itself, or memory apart from it
  std::span<const scaled_gradient> gradients;
};

/// Applies `rule` to every weight, in one pass over memory.
///
/// Several gradients are summed in the order given, so the same list gives the same bits.
/// Shapes  weights, updated, each gradient and each pointer of `state`: float32[n], n may be 0; `state` holds
///         as many pointers as the rule has states. An empty list of gradients is a gradient of zero.
/// Errors  shape_error if sizes or the number of states differ; device_error for a GPU this build lacks.
/// Threads one caller at a time for one `updated` and one `state`; nobody writes `weights` meanwhile.
void update(const stream& s, const update_rule& rule, const weight_penalty& penalty,
            const weight_update& work, std::span<float* const> state);

/// Rows of a table, each with a gradient of its own.
struct row_update {
  std::span<float> weights;
  std::size_t width;
  std::span<const std::uint32_t> rows; ///< row r lies at weights[r * width]
  std::span<const float> values;       ///< float32[rows.size(), width]
  float scale = 1;
};

/// Errors  shape_error if there is not a value for each weight of each row, or a row lies outside the table.
void require_fitting(const row_update& work);

/// Applies `rule` in place to the listed rows, one after the other, and touches no other row.
///
/// A row that is listed twice is updated twice. Only for SGD without a penalty is that the same as one update
/// with the sum of both gradients.
/// Shapes  weights and each pointer of `state`: float32[table rows, width].
/// Errors  shape_error if sizes or the number of states differ, or a row lies outside the table; nothing has
///         changed then. device_error for a stream of a GPU: rows are updated on the host only.
/// Threads one caller at a time for one table and its state.
void update_rows(const stream& s, const update_rule& rule, const weight_penalty& penalty,
                 const row_update& work, std::span<float* const> state);

} // namespace mailgrad
