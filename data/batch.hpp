#pragma once

#include <mailgrad/data/dataset.hpp>
#include <mailgrad/tensor/tensor.hpp>

namespace mailgrad {

/// A mini-batch of n samples, ready to feed a program. Tensors that the kind of data set does not use are
/// empty.
/// Shapes  features float32[n, sample dims...], for tokens int32[n, window length];
///         columns int32[max_nonzeros] and values float32[max_nonzeros], padded with -1 and 0;
///         categories int32[n, categories of a sample];
///         offsets int32[n + 1]: row i is the entries offsets[i] to offsets[i + 1];
///         labels int32[n], for tokens int32[n, window length], for targets float32[n] or float32[n, width];
///         inputs [n, sample dims...], in the order of the set's named arrays.
struct batch {
  tensor features;
  tensor columns;
  tensor values;
  tensor offsets;
  tensor categories;
  tensor labels;
  std::vector<tensor> inputs; ///< one for each named array; `features` is empty then
  std::size_t size = 0;       ///< n
  std::size_t nonzeros = 0;   ///< entries of a sparse batch before the padding
  std::uint64_t number = 0;   ///< in the order of dealing, from 0, counted over all epochs
  std::uint64_t epoch = 0;    ///< from 0
};

/// The number of entries that any batch of `samples` rows of a sparse set fits into: the sum of its longest
/// rows.
std::size_t max_nonzeros(const dataset& d, std::size_t samples);

/// The number of entries in these rows of a sparse set; 0 for other sets.
/// Errors  std::out_of_range if a sample is not in `d`.
std::size_t count_entries(const dataset& d, std::span<const std::uint32_t> samples);

/// The bytes of all tensors of a batch.
std::size_t bytes_of(const batch& b);

/// Gives `out` the shapes of a batch of `samples` of `d`. `nonzeros` is the room for entries of a sparse set.
/// Where one program serves a training set and a test set, it is the larger of their max_nonzeros().
void shape_batch(const dataset& d, std::size_t samples, std::size_t nonzeros, batch& out);

/// Copies the samples into `out`, in the order given. Its memory is kept where the shapes already fit.
/// Tensors are allocated anew, with max_nonzeros(), for a batch of another size or rows that do not fit. A
/// sample may come twice, and the room grows with that.
/// Units   byte features are multiplied by the scale of their set.
/// Errors  std::out_of_range if a sample is not in `d`; nothing has been written then.
void fill_batch(const dataset& d, std::span<const std::uint32_t> samples, batch& out);

/// Copies `count` samples of a batch from `first` on into a batch of their own. The memory of `out` is kept
/// where the shapes already fit. A slice of a sparse batch has as much room for entries as the whole.
/// Errors  std::out_of_range if `whole` has no such samples.
void slice_batch(const batch& whole, std::size_t first, std::size_t count, batch& out);

} // namespace mailgrad
