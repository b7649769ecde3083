#pragma once

#include <mailgrad/data/batch.hpp>
#include <mailgrad/engine/model/coverage.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/tensor/block.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mailgrad {

/// Rows of the gradient of one table.
///
/// Shapes  rows int32[n], repeats summed, a negative one ends the list; values float32[n, width].
struct gradient_rows {
  std::size_t variable = 0; ///< index in parameter_layout::variables()
  std::size_t width = 0;
  std::span<const std::int32_t> rows;
  std::span<const float> values;
};

/// What a further device of the same worker adds to the dense part of a gradient.
struct dense_addend {
  block values;                              ///< float32[parameter_layout::dense_size()], or nothing
  std::shared_ptr<const coverage> covered{}; ///< what of `values` counts; null: all of it
};

/// The gradient of a whole model on one mini-batch, laid out as its weights are: the shards of one model all
/// read their part of it where it lies.
///
/// A worker whose graph lacks a variable has no gradient of it, which is not the same as a gradient of zero:
/// `covered` says what this one is about, and its values elsewhere are zero.
struct gradient {
  block dense;                               ///< float32[parameter_layout::dense_size()]
  std::shared_ptr<const coverage> covered{}; ///< null: all of `dense`
  std::vector<dense_addend> addends; ///< the dense part is the sum of `dense` and these, in this order
  std::vector<gradient_rows> sparse;
  std::vector<block> sparse_memory;              ///< what `sparse` points into, unless into
  std::shared_ptr<const batch> source;           ///< the batch itself
  std::vector<std::shared_ptr<const void>> held; ///< memory of others that `sparse` points into
};

/// The dense part of `g`, with what further devices add.
///
/// Errors  shape_error for an addend that is shorter than what it covers.
std::vector<float> whole_dense(const gradient& g);

/// A gradient with room for all variables that have no sparse one.
std::shared_ptr<gradient> make_gradient(const parameter_layout& layout);

} // namespace mailgrad
