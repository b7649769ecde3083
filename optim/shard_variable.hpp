#pragma once

#include <mailgrad/tensor/shape.hpp>

#include <cstddef>
#include <string>

namespace mailgrad {

/// A variable that lies whole in a shard, for rules that look at more than one weight.
struct shard_variable {
  std::string name;
  shape dims;
  std::size_t offset = 0; ///< floats from the start of the shard
  bool in_rows = false;   ///< it is a table whose gradient is a list of rows
};

/// A variable as a matrix, row-major.
struct matrix_dims {
  std::size_t rows = 1;
  std::size_t columns = 1;
};

/// A product x * w with weights [in, units] has them as they are. Filters [height, width, in, filters] become
/// (height * width * in) x filters, so a column always has the weights of one unit or filter. A vector is one
/// row.
inline matrix_dims as_matrix(const shape& dims) {
  const std::size_t columns = dims.rank() == 0 ? 1 : dims[dims.rank() - 1];
  return {columns == 0 ? 0 : dims.size() / columns, columns};
}

} // namespace mailgrad
