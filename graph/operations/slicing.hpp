#pragma once

#include <mailgrad/graph/value.hpp>

#include <cstddef>
#include <source_location>
#include <span>
#include <vector>

namespace mailgrad {

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
