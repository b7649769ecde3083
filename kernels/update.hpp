#pragma once

#include <mailgrad/kernels/functors/update_rule.hpp>
#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <span>

namespace mailgrad {

/// A gradient block and its factor, such as that of clipping.
struct scaled_gradient {
  const float* values;
  float scale = 1;
};

/// The weights of version t, the memory for version t+1, and the gradients whose scaled sum is applied. The
/// sum is multiplied by `share` when it is complete: 1/N makes it a mean of N. So a sum of the first
/// gradients can take their place before N is known, and the bits stay the same.
struct weight_update {
  std::span<const float> weights;
  std::span<float> updated; ///< the memory of `weights` itself, or memory apart from it
  std::span<const scaled_gradient> gradients;
  float share = 1;
};

/// Applies `rule` to every weight, in one pass over memory.
///
/// Several gradients are summed in the order given, so the same list gives the same bits.
/// Shapes  weights, updated, each gradient and each pointer of `state`: float32[n], n may be 0; `state` holds
///         as many pointers as the rule has states. An empty list of gradients is a gradient of zero.
/// Errors  shape_error if sizes or the number of states differ.
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
///         changed then. device_error for a stream of a GPU, which takes rows by update_summed_rows().
/// Threads one caller at a time for one table and its state.
void update_rows(const stream& s, const update_rule& rule, const weight_penalty& penalty,
                 const row_update& work, std::span<float* const> state);

/// The rows of a table that a gradient names, each with its values, on a GPU.
struct row_gradient {
  std::span<const std::int32_t> rows; ///< may repeat, repeats are summed; a negative one ends the list
  const float* values;                ///< float32[rows.size(), width]
  float scale = 1;                    ///< factor on the values
};

/// One update of the rows of a table that some gradients name, on a GPU.
struct summed_row_update {
  std::span<float> weights; ///< float32[row_end - row_begin, width]; row r lies at (r - row_begin) * width
  std::size_t width;
  std::int32_t row_begin; ///< rows that lie before it, or from row_end on, are skipped
  std::int32_t row_end;
  std::span<const row_gradient> gradients;
  void* scratch; ///< row_update_bytes() of the GPU's memory, 64-byte aligned
};

/// Bytes of scratch memory that update_summed_rows() needs for these gradients.
std::size_t row_update_bytes(device_kind where, std::span<const row_gradient> gradients) noexcept;

/// Applies `rule` in place once to each row that any gradient names, with the scaled sum of all its values,
/// which are added in the order of the gradients and of each list. It touches no other row.
/// Shapes  each pointer of `state`: float32[row_end - row_begin, width].
/// Errors  shape_error if sizes or the number of states differ, for lists of 2^31 rows, or for more gradients
///         than some 20,000; device_error on the host, for which the rows are summed before.
/// Threads one caller at a time for one table and its state.
void update_summed_rows(const stream& s, const update_rule& rule, const weight_penalty& penalty,
                        const summed_row_update& work, std::span<float* const> state);

} // namespace mailgrad
