#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace mailgrad {

/// The names under which a batch feeds a program. Dense and token sets feed `features` and `labels`; sparse
/// sets feed `columns`, `values`, `offsets` and `labels`; sets of categories feed `categories`, `labels` and,
/// where samples have numbers, too, `features`.
namespace batch_input {
inline constexpr std::string_view features = "features";
inline constexpr std::string_view columns = "columns";
inline constexpr std::string_view values = "values";
inline constexpr std::string_view offsets = "offsets";
inline constexpr std::string_view categories = "categories";
inline constexpr std::string_view labels = "labels";
} // namespace batch_input

/// A mini-batch of n samples, ready to feed a program. Tensors that its kind of set does not use are empty.
///
/// Shapes  features float32[n, sample dims...], for tokens int32[n, window length];
///         columns int32[max_nonzeros] and values float32[max_nonzeros], padded with -1 and 0;
///         categories int32[n, categories of a sample];
///         offsets int32[n + 1]: row i is the entries offsets[i] to offsets[i + 1];
///         labels int32[n], for tokens int32[n, window length], of a set with targets float32[n].
struct batch {
  tensor features;
  tensor columns;
  tensor values;
  tensor offsets;
  tensor categories;
  tensor labels;
  std::size_t size = 0;     ///< n
  std::size_t nonzeros = 0; ///< of a sparse batch: entries before the padding
  std::uint64_t number = 0; ///< as dealt, from 0, counted over all epochs
  std::uint64_t epoch = 0;  ///< from 0
};

/// Room that every batch of `samples` rows of a sparse set fits into: the sum of its longest rows.
std::size_t max_nonzeros(const dataset& d, std::size_t samples);

/// Gives `out` the shapes of a batch of `samples` of `d`. `nonzeros` is the room for entries of a sparse set:
/// the larger of two max_nonzeros() where one program serves a training and a test set.
void shape_batch(const dataset& d, std::size_t samples, std::size_t nonzeros, batch& out);

/// Copies the samples into `out`, in the order given, keeping its memory where the shapes already fit; only
/// a batch of another size, or rows that do not fit, are shaped anew (with max_nonzeros).
///
/// Units   bytes are multiplied by the scale of their set.
/// Errors  std::out_of_range if a sample is not in `d`; nothing has been written then.
void fill_batch(const dataset& d, std::span<const std::uint32_t> samples, batch& out);

} // namespace mailgrad
