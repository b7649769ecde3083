#pragma once

#include <mailgrad/graph/value.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <vector>

namespace mailgrad {

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

} // namespace mailgrad
