#pragma once

#include <mailgrad/files/archive.hpp>
#include <mailgrad/tensor/shape.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace mailgrad {

/// Lets an archive keep a shape as the list of its extents.
///
/// Errors  archive_error as the archive has it; shape_error for more extents than a shape has, or more
///         elements than memory can hold.
inline void keep(archive& a, shape& dims) {
  std::vector<std::size_t> extents(dims.begin(), dims.end());
  a.field("extents", extents);
  if (a.reads()) dims = shape(std::span<const std::size_t>(extents));
}

} // namespace mailgrad
