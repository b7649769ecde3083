#pragma once

#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <algorithm>
#include <cstddef>
#include <string>

namespace mailgrad::cuda {

/// Calls visit(first row, number of rows) for as many rows at a time as have at most s.most_in_32_bits
/// elements, so that a kernel can count them in 32 bits.
///
/// Errors  shape_error if one row has more.
template <class Visit>
void for_row_chunks(const cuda_stream& s, const char* name, std::size_t rows, std::size_t columns,
                    Visit visit) {
  const std::size_t most = s.most_in_32_bits;
  if (columns > most)
    throw shape_error(std::string(name) + ": a card takes rows of fewer than 2^31 elements");
  const std::size_t at_once = most / std::max<std::size_t>(columns, 1);
  for (std::size_t first = 0; first < rows; first += at_once) visit(first, std::min(at_once, rows - first));
}

} // namespace mailgrad::cuda
