#pragma once

#include <mailgrad/graph/value.hpp>

#include <cstddef>
#include <optional>
#include <span>

namespace mailgrad {

/// The rows of a table that an operation reads: those whose numbers are elements first, first + stride and so
/// on of an operand.
struct rows_read {
  std::size_t operand = 0; ///< int32
  std::size_t first = 0;   ///< less than the elements of the operand, if that has any
  std::size_t stride = 1;  ///< at least 1
};

/// An operation that reads of a table only the rows that another operand names. Such a table need not be
/// where the operation reads it as a whole.
class row_reader {
public:
  virtual ~row_reader() = default;

  /// Which rows of operand `table` the operation reads; none if that is no such table. Whoever asks checks
  /// the answer, and refuses a wrong one by a graph_error.
  virtual std::optional<rows_read> rows_of(std::span<const value> inputs, std::size_t table) const = 0;
};

} // namespace mailgrad
