#pragma once

#include <mailgrad/data/batch.hpp>
#include <mailgrad/engine/model/coverage.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/mark.hpp>
#include <mailgrad/tensor/memory.hpp>

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

/// The same on a card, for its kernels.
struct card_rows {
  std::size_t variable = 0; ///< index in parameter_layout::variables()
  std::size_t width = 0;
  std::span<const std::int32_t> rows;
  std::span<const float> values;
};

/// The valid rows of the list, which are all before the first negative one, with their values.
gradient_rows listed_rows(const gradient_rows& part);

/// The contribution of a further device of the same worker to the dense part of a gradient.
struct dense_addend {
  block values;                              ///< float32[parameter_layout::dense_size()], or nothing
  std::shared_ptr<const coverage> covered{}; ///< the valid ranges of `values`; null: all of it
};

/// The gradient of a whole model on one mini-batch, laid out like its weights. All shards read their parts of
/// it in place.
///
/// A worker whose graph lacks a variable has no gradient of it, which differs from a gradient of zero.
/// `covered` tells for which ranges there is a gradient; the values elsewhere are zero.
///
/// The dense part lies on the host, or on the card of the shards that read it, and so do the rows of tables.
/// Addends lie on the host. What lies on a card may still be computed: a lane that reads it waits for `ready`
/// first. If some shards are on the worker's card and others are not, the dense part lies in both places, and
/// each has the values that shards read there.
struct gradient {
  memory dense;                              ///< float32[parameter_layout::dense_size()]
  memory on_card{};                          ///< the same for shards on a card, if `dense` is for the others,
  std::uint32_t card = 0;                    ///< and the number of this card
  std::shared_ptr<const coverage> covered{}; ///< null: all of `dense`
  std::vector<dense_addend> addends; ///< the dense part is the sum of `dense` and these, in this order
  std::vector<gradient_rows> sparse;
  std::vector<card_rows> sparse_on_card;         ///< in place of `sparse`, if all shards are on one card,
  memory rows_on_card{};                         ///< in this memory, or in that of `held`
  std::vector<block> sparse_memory;              ///< `sparse` points into this memory,
  std::shared_ptr<const batch> source;           ///< into the batch itself,
  std::vector<std::shared_ptr<const void>> held; ///< or into memory of other owners
  mark ready{};                                  ///< passes when the values are there

  /// The dense part for kernels on `s`: of both places the one that they reach, if they reach one.
  const memory& dense_for(const stream& s) const noexcept {
    const auto* const gpu = std::get_if<cuda_stream>(&s);
    return gpu && on_card.bytes() > 0 && gpu->device == card ? on_card : dense;
  }
};

/// Whether `m` is on the side of `s`: on the host, or on a card. memory::on() refuses another card.
inline bool is_beside(const memory& m, const stream& s) noexcept {
  return m.is_on_host() == std::holds_alternative<host_stream>(s);
}

/// The dense part of `g`, including the addends of further devices.
///
/// Errors  shape_error for an addend that is shorter than the ranges it covers.
std::vector<float> whole_dense(const gradient& g);

/// The square of the global norm of a gradient without addends, as sum_of_squares() adds it up.
double squared_norm(const gradient& g);

/// A gradient with memory for all variables without a sparse gradient. The memory is a block of `blocks`;
/// null: of this process.
std::shared_ptr<gradient> make_gradient(const parameter_layout& layout, const block_source& blocks = {});

} // namespace mailgrad
