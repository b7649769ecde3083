#pragma once

#include <mailgrad/files/archive.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/shape.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace mailgrad {

/// Lets an archive keep a shape as the list of its extents.
///
/// Errors  archive_error, also for more extents than a shape has, or more elements than memory can hold.
inline void keep(archive& a, shape& dims) {
  std::vector<std::size_t> extents(dims.begin(), dims.end());
  a.field("extents", extents);
  if (!a.reads()) return;
  try {
    dims = shape(std::span<const std::size_t>(extents));
  } catch (const shape_error& e) {
    throw archive_error(e.what());
  }
}

} // namespace mailgrad
