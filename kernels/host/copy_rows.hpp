#pragma once

#include <mailgrad/kernels/copy_rows.hpp>

namespace mailgrad::host {

/// kernels/copy_rows.hpp on the calling thread.
void copy_rows(std::span<const row_copy> copies);

} // namespace mailgrad::host
