#pragma once

#include <mailgrad/files/archive.hpp>
#include <mailgrad/graph/travelling.hpp>
#include <mailgrad/graph/value.hpp>
#include <mailgrad/kernels/strided_copy.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/shape.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <vector>

namespace mailgrad {

static_assert(sizeof(float) == sizeof(std::int32_t), "slices copy integers as if they were floats");

inline void require_axis(const value_type& t, std::size_t axis) {
  if (axis >= t.dims.rank()) throw shape_error(fmt::format("there is no axis {}", axis));
}

inline void require_float_with_axis(const value_type& t, std::size_t axis) {
  if (t.type != dtype::float32) throw shape_error("elements must be float32");
  require_axis(t, axis);
}

inline shape with_extent(shape dims, std::size_t axis, std::size_t extent) {
  dims[axis] = extent;
  return dims;
}

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
