#pragma once

#include <mailgrad/graph/value.hpp>

#include <cstddef>
#include <source_location>
#include <vector>

namespace mailgrad {

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

} // namespace mailgrad
