#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operations.hpp>

namespace mailgrad {

// Layers are operations with variables of their own, which are called "<name>/weights" and so on. A second
// layer of the same name and shape shares these variables.

/// The function that a layer applies to each element of its result.
enum class activation : std::uint8_t { none, relu, gelu, tanh, sigmoid };
inline constexpr std::array<std::string_view, 5> activation_names{"none", "relu", "gelu", "tanh", "sigmoid"};

value activate(const value& x, activation how, std::source_location where = std::source_location::current());

/// activation(x * weights + bias). Weights start as He et al. propose if relu or gelu follows, otherwise as
/// Glorot & Bengio propose. Biases start as 0.
///
/// Shapes  x: float32[..., n, in]; weights: [in, units]; bias: [units]; result: [..., n, units].
/// Errors  graph_error if x has a rank below 2.
value dense(const value& x, std::size_t units, const std::string& name, activation how = activation::none,
            std::source_location where = std::source_location::current());

/// dense() on rows that are mostly zero. The gradient of its weights is a list of rows.
///
/// Shapes  columns: int32[n], values: float32[n], offsets: int32[batch + 1]; weights: [in, units].
/// Errors  as sparse_matmul.
value sparse_dense(const value& columns, const value& values, const value& offsets, std::size_t in,
                   std::size_t units, const std::string& name, activation how = activation::none,
                   std::source_location where = std::source_location::current());

struct conv_options {
  std::array<std::size_t, 2> window{3, 3}; ///< rows, columns
  std::array<std::size_t, 2> stride{1, 1};
  padding pad = padding::same();
  activation how = activation::none;
};

/// activation(conv2d(x, weights) + bias).
///
/// Shapes  x: float32[batch, height, width, in]; weights: [rows, columns, in, filters]; bias: [filters].
/// Errors  graph_error if x has another shape, or the window does not fit.
value conv(const value& x, std::size_t filters, const std::string& name, const conv_options& options = {},
           std::source_location where = std::source_location::current());

/// Looks up one row of a table for each index. The table has `size` rows.
///
/// Shapes  indices: int32, any rank; table: [size, width]; result: one more axis than `indices`, of extent
///         `width`.
value embedding(const value& indices, std::size_t size, std::size_t width, const std::string& name,
                std::source_location where = std::source_location::current());

/// Brings each row along the last axis to mean 0 and variance 1, then scales it by gamma and shifts it by
/// beta. Gamma starts as 1 and beta as 0.
///
/// Shapes  x: float32[..., n]; gamma, beta: [n].
value layer_norm(const value& x, const std::string& name,
                 std::source_location where = std::source_location::current());

/// Joins all axes but the first into one.
///
/// Shapes  x: [batch, ...]; result: [batch, n].
/// Errors  graph_error if x is a scalar or has no elements.
value flatten(const value& x, std::source_location where = std::source_location::current());

} // namespace mailgrad
