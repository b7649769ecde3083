#pragma once

#include <mailgrad/tensor/stream.hpp>

#include <cstddef>

namespace mailgrad {

/// Copies memory that the stream's kernels can reach. Both memories lie apart.
///
/// Errors  device_error for a GPU this build lacks, or that its driver reports.
void copy_bytes(const stream& s, void* to, const void* from, std::size_t bytes);

} // namespace mailgrad
