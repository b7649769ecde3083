#pragma once

#include <mailgrad/files/archive.hpp>
#include <mailgrad/graph/value.hpp>
#include <mailgrad/kernels/gemm.hpp>

namespace mailgrad {

// Arithmetic on elements, with NumPy's broadcasting: shapes are aligned at their last axis, and an axis of
// extent 1, or a missing one, is repeated.
//
// Shapes  float32, any ranks; each extent of the result is the larger of the two.
// Errors  graph_error if two extents differ and neither is 1.

value add(const located& a, const located& b);
value subtract(const located& a, const located& b);
value multiply(const located& a, const located& b);
value divide(const located& a, const located& b);

inline value operator+(const located& a, const located& b) { return add(a, b); }
inline value operator-(const located& a, const located& b) { return subtract(a, b); }
inline value operator*(const located& a, const located& b) { return multiply(a, b); }
inline value operator/(const located& a, const located& b) { return divide(a, b); }

value operator+(const located& a, float b);
value operator-(const located& a, float b);
value operator*(const located& a, float b);
value operator/(const located& a, float b);
value operator+(float a, const located& b);
value operator-(float a, const located& b);
value operator*(float a, const located& b);
value operator/(float a, const located& b);
value operator-(const located& a);

/// Adds `b` to each row of x.
///
/// Shapes  x: float32[..., n]; b: float32[n].
value add_bias(const value& x, const value& b, std::source_location where = std::source_location::current());

/// max(x + b, 0) in one pass over x.
///
/// Shapes  as add_bias.
value bias_relu(const value& x, const value& b, std::source_location where = std::source_location::current());

// Functions that are applied to each element.
//
// Shapes  float32 of any shape; the result has the same shape.
// Errors  graph_error for integers.

/// max(x, 0); its gradient at 0 is 0.
value relu(const value& x, std::source_location where = std::source_location::current());

/// x Phi(x) with the exact normal distribution Phi, as PyTorch's default; not the tanh approximation.
///
/// Source  Hendrycks & Gimpel, arXiv:1606.08415.
value gelu(const value& x, std::source_location where = std::source_location::current());

value tanh(const value& x, std::source_location where = std::source_location::current());
value sigmoid(const value& x, std::source_location where = std::source_location::current());
value exp(const value& x, std::source_location where = std::source_location::current());
value log(const value& x, std::source_location where = std::source_location::current());
value square(const value& x, std::source_location where = std::source_location::current());
value sqrt(const value& x, std::source_location where = std::source_location::current());

/// gelu(x + b) in one pass over x, with b added to each row. Its gradient takes one more pass.
///
/// Source  Hendrycks & Gimpel, arXiv:1606.08415.
/// Shapes  x: float32[..., n]; b: float32[n].
/// Errors  graph_error for other shapes and types.
value bias_gelu(const value& x, const value& b, std::source_location where = std::source_location::current());

/// What happens to an axis that is summed over.
enum class summed_axes : std::uint8_t { dropped, kept_as_one };

/// The sum, or the mean, over the listed axes, whose order does not matter. Without a list it is over all
/// axes.
///
/// Shapes  float32, any rank; without a list the result is a scalar.
/// Errors  graph_error if there is no such axis, or one is listed twice.
value reduce_sum(const value& x, std::source_location where = std::source_location::current());
value reduce_sum(const value& x, const std::vector<std::size_t>& axes,
                 summed_axes keep = summed_axes::dropped,
                 std::source_location where = std::source_location::current());
value reduce_mean(const value& x, std::source_location where = std::source_location::current());
value reduce_mean(const value& x, const std::vector<std::size_t>& axes,
                  summed_axes keep = summed_axes::dropped,
                  std::source_location where = std::source_location::current());

/// Repeats x along the axes in which it has extent 1, or none, until it has shape `dims`.
value broadcast_to(const value& x, const shape& dims,
                   std::source_location where = std::source_location::current());

/// The reverse of broadcast_to(): sums over the axes along which a value of shape `dims` would be repeated to
/// get the shape of x.
value sum_to(const value& x, const shape& dims, std::source_location where = std::source_location::current());

/// The mean of (a - b)^2 over all elements.
///
/// Shapes  a, b: float32, the same shape; the result is a scalar.
value mean_squared_error(const value& a, const value& b,
                         std::source_location where = std::source_location::current());

/// Which operands of a product are read transposed, in their last two axes, without a transpose in memory.
struct matmul_options {
  operand_order a = operand_order::as_is;
  operand_order b = operand_order::as_is;
};

/// The matrix product, for each matrix of a batch.
///
/// Shapes  a: float32[..., m, k], b: float32[..., k, n], the leading axes equal; result: float32[..., m, n].
///         If a is not transposed, b may be one matrix, float32[k, n], by which every row of a is multiplied.
///         The last two axes of a transposed operand are given in the other order.
/// Errors  graph_error if the inner extents or the leading axes differ, or a rank is below 2.
value matmul(const value& a, const value& b, std::source_location where = std::source_location::current());
value matmul(const value& a, const value& b, const matmul_options& options,
             std::source_location where = std::source_location::current());

/// The dot products of all pairs of vectors in a sample, in the order (1,0), (2,0), (2,1), (3,0), ... A
/// factorisation machine combines features in this way.
///
/// Source  Rendle, "Factorization Machines", ICDM 2010; as a layer, Naumov et al. 2019, arXiv:1906.00091.
/// Shapes  x: float32[samples, count, width]; the result: float32[samples, count * (count - 1) / 2].
/// Errors  graph_error for other ranks and types, or fewer than two vectors.
value pairwise_dots(const value& x, std::source_location where = std::source_location::current());

/// The product of rows that are mostly zero with a table. Only rows of the table that entries name are read.
/// The gradient with respect to the table is the list of these rows. The entries have no gradient.
///
/// Shapes  columns: int32[entries] and values: float32[entries], columns padded with -1; offsets:
///         int32[n + 1], row i is the entries offsets[i] to offsets[i + 1]; table: float32[columns of a row,
///         width]; result: float32[n, width].
/// Errors  graph_error for other shapes. A run throws std::out_of_range for a column that the table lacks.
value sparse_matmul(const value& columns, const value& values, const value& offsets, const value& table,
                    std::source_location where = std::source_location::current());

/// Looks up rows of a table, as an embedding does. Its gradient with respect to the table is the list of rows
/// that were read.
///
/// Shapes  table: float32[rows, width]; indices: int32 of any rank, each in [0, rows); the result has the
///         extents of `indices` and then `width`.
/// Errors  graph_error for other ranks and types. A run throws std::out_of_range for a row that the table
///         lacks.
value gather(const value& table, const value& indices,
             std::source_location where = std::source_location::current());

/// Makes a table of zeros and adds row i of `values` to its row rows[i]. A row may occur more than once. A
/// negative row number ends the list.
///
/// Shapes  rows: int32[n]; values: float32[n, width]; dims: {table rows, width}.
/// Errors  as gather.
value scatter_rows(const value& rows, const value& values, const shape& dims,
                   std::source_location where = std::source_location::current());

/// Looks up one row of every table for each sample, side by side: the embeddings of samples of several
/// categories. Its gradient with respect to a table is the list of rows that were read, as for gather().
///
/// Shapes  tables: k of float32[rows, width], which may have different numbers of rows; indices:
///         int32[samples, k], where column j holds rows of table j; the result: float32[samples, k, width].
/// Errors  graph_error for other ranks and types, tables of different widths, or no tables. A run throws
///         std::out_of_range for a row that its table lacks.
value gather_tables(std::span<const value> tables, const value& indices,
                    std::source_location where = std::source_location::current());

/// How far a window may reach over the border of an image. Values outside are zero in a convolution, and
/// pooling ignores them.
struct padding {
  enum class rule : std::uint8_t { same, valid, given };

  rule how = rule::same;
  std::array<std::size_t, 2> before{}; ///< rows above, columns to the left; for `given`
  std::array<std::size_t, 2> after{};  ///< rows below, columns to the right; for `given`

  /// As many windows as pixels / stride, rounded up. An odd row or column of padding goes below or to the
  /// right.
  static constexpr padding same() { return {}; }
  /// No padding: every window lies inside the image.
  static constexpr padding valid() { return {rule::valid, {}, {}}; }
  /// So many rows above and below, and so many columns to the left and to the right.
  static constexpr padding of(std::size_t rows, std::size_t columns) {
    return {rule::given, {rows, columns}, {rows, columns}};
  }

  void keep(archive& a) {
    a.choice("how", how, rule::given);
    a.field("before", before);
    a.field("after", after);
  }
};

/// "padding same", "padding valid", or "padding 2+2 1+1": above + below, left + right.
std::string to_string(const padding& p);

struct convolution_options {
  std::array<std::size_t, 2> stride{1, 1}; ///< rows, columns from one window to the next; at least 1
  padding pad = padding::same();
};

/// Two-dimensional convolution, as networks use the word: a cross-correlation, whose kernel is not mirrored.
///
/// Source  Dumoulin & Visin, "A guide to convolution arithmetic for deep learning", arXiv:1603.07285; its
///         gradients are sections 4.1-4.6.
/// Shapes  x: float32[batch, height, width, in]; w: float32[rows, columns, in, out]; result: float32[batch,
///         height', width', out] with height' = (height + padding - rows) / stride + 1, rounded down.
/// Errors  graph_error if ranks or channels differ, or a window is larger than the padded image.
value conv2d(const value& x, const value& w, const convolution_options& options = {},
             std::source_location where = std::source_location::current());

struct pooling_options {
  std::array<std::size_t, 2> window{2, 2}; ///< rows, columns; at least 1
  std::array<std::size_t, 2> stride{2, 2}; ///< rows, columns from one window to the next; at least 1
  padding pad = padding::valid();
};

/// The largest value of each window and channel; padding is never chosen. The gradient goes only to that
/// value, or to the first of equal values in row-major order. A window with a NaN has the result NaN.
///
/// Shapes  x: float32[batch, height, width, channels]; result: float32[batch, height', width', channels],
///         extents as in conv2d.
/// Errors  graph_error if x has another shape, a window is larger than the padded image, or padding is as
///         large as the window.
value max_pool(const value& x, const pooling_options& options = {},
               std::source_location where = std::source_location::current());

/// The mean of each window and channel, over the values that lie inside the image.
///
/// Shapes  as max_pool.
/// Errors  as max_pool.
value average_pool(const value& x, const pooling_options& options = {},
                   std::source_location where = std::source_location::current());

/// Brings each row along the last axis to mean 0 and variance 1, then scales it by gamma and shifts it by
/// beta.
///
/// Source  Ba, Kiros & Hinton, "Layer Normalization", 2016, arXiv:1607.06450, equation 4.
/// Shapes  x: float32[..., n], n at least 1; gamma, beta: float32[n].
/// Units   epsilon is added to the variance.
/// Errors  graph_error for other shapes, or an epsilon that is not above 0.
value layer_norm(const value& x, const value& gamma, const value& beta, float epsilon = 1e-5F,
                 std::source_location where = std::source_location::current());

/// Zeroes each element with probability `rate` and divides the others by 1 - rate. Graphs for evaluation do
/// not contain it.
///
/// Which elements are dropped depends only on the rate, the seed, the number of the step and the position, so
/// a run can be repeated. Two dropouts of one graph need different seeds.
/// Source  Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 15,
///         2014. Differs: it scales in training, so an evaluation needs no scaling.
/// Shapes  x: float32, any rank.
/// Errors  graph_error unless rate is in [0, 1).
value dropout(const value& x, float rate, std::uint64_t seed,
              std::source_location where = std::source_location::current());

/// Causal scaled dot-product attention in several heads. Each position of a window gets a mean of the values
/// at and before it, weighted by the softmax of query . key / sqrt(width of a head).
///
/// Source  Vaswani et al., "Attention Is All You Need", NIPS 2017, sections 3.2.1 to 3.2.3. Differs: the
///         projections before and after it are separate dense layers.
/// Shapes  qkv: float32[batch, window, 3 * width]: the queries of all heads, then their keys, then their
///         values; result: [batch, window, width].
/// Errors  graph_error for other ranks and types, or a width that `heads` does not divide.
value causal_attention(const value& qkv, std::size_t heads,
                       std::source_location where = std::source_location::current());

/// exp(x) / sum of exp(x), over the last axis.
///
/// Shapes  x: float32 of rank 1 or more; the result has the same shape.
/// Errors  graph_error for another type or a scalar.
value softmax(const value& x, std::source_location where = std::source_location::current());

/// The mean of -log(softmax(logits)[label]): the loss of a classifier. Softmax and logarithm are computed
/// together, so that the loss is finite for any finite logits.
///
/// Shapes  logits: float32[..., classes]; labels: int32[...]; the result is a scalar.
/// Errors  graph_error if the leading axes differ, or there are no classes. A run throws std::out_of_range
///         for a label that is no class.
value cross_entropy(const value& logits, const value& labels,
                    std::source_location where = std::source_location::current());

// These operations put elements into another order or under another shape. Axes count from 0, outermost
// first.

/// The same elements under another shape. It takes neither memory nor a kernel.
///
/// Errors  graph_error if `dims` has another number of elements.
value reshape(const value& x, const shape& dims,
              std::source_location where = std::source_location::current());

/// Drops an axis of extent 1.
///
/// Errors  graph_error if there is no such axis, or its extent is not 1.
value squeeze(const value& x, std::size_t axis, std::source_location where = std::source_location::current());

/// Axis i of the result is axis order[i] of x; without an order, the axes are reversed.
///
/// Shapes  x: float32 of any rank.
/// Errors  graph_error if `order` does not name each axis once.
value transpose(const value& x, std::source_location where = std::source_location::current());
value transpose(const value& x, const std::vector<std::size_t>& order,
                std::source_location where = std::source_location::current());

// These operations take values apart and put them together. Axes count from 0, outermost first.

/// The elements [begin, end) along one axis.
///
/// Shapes  x: of any type and rank; integers get no gradient.
/// Errors  graph_error if there is no such axis or range.
value slice(const value& x, std::size_t axis, std::size_t begin, std::size_t end,
            std::source_location where = std::source_location::current());

/// Splits x into slices that follow one another along one axis.
///
/// Errors  graph_error if the lengths do not add up to the extent of the axis.
std::vector<value> split(const value& x, std::size_t axis, const std::vector<std::size_t>& lengths,
                         std::source_location where = std::source_location::current());

/// Puts values one after the other along one axis.
///
/// Shapes  parts: float32, at least one; all other extents are equal.
/// Errors  graph_error if there are no parts, or shapes differ.
value concat(std::span<const value> parts, std::size_t axis,
             std::source_location where = std::source_location::current());

/// Puts values of one shape side by side along a new axis, which becomes axis `axis` of the result.
///
/// Errors  as concat.
value stack(std::span<const value> parts, std::size_t axis,
            std::source_location where = std::source_location::current());

} // namespace mailgrad
