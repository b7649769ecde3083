#include <mailgrad/kernels/copy_bytes.hpp>

#include <mailgrad/kernels/cuda/runtime.hpp>

#include <cstring>

namespace mailgrad {

void copy_bytes(const stream& s, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (const auto* card = std::get_if<cuda_stream>(&s)) {
    cuda::runtime::make_current(card->device);
    return cuda::runtime::copy(card->stream, to, from, bytes);
  }
  std::memcpy(to, from, bytes);
}

} // namespace mailgrad
