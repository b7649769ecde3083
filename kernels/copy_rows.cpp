#include <mailgrad/kernels/copy_rows.hpp>

#include <mailgrad/kernels/cuda/copy_rows.hpp>
#include <mailgrad/kernels/host/copy_rows.hpp>

namespace mailgrad {

void copy_rows(const stream& s, std::span<const row_copy> copies) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::copy_rows(*card, copies);
  host::copy_rows(copies);
}

} // namespace mailgrad
