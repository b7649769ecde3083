#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/round_floats.hpp>

namespace mailgrad::cuda {

namespace {

/// A thread takes eight numbers. Those behind `in_packs` are taken one by one.
__global__ void round_kernel(const float* x, bfloat16* y, std::size_t n, std::size_t in_packs) {
  const std::size_t first = grid_thread() * bfloat16_pack::size;
  if (first < in_packs) {
    store_eight(y + first, load_eight(x + first));
    return;
  }
  for (std::size_t i = first; i < n && i < first + bfloat16_pack::size; ++i)
    y[i].bits = bfloat16_of_float(x[i]);
}

__global__ void widen_kernel(const bfloat16* x, float* y, std::size_t n, std::size_t in_packs) {
  const std::size_t first = grid_thread() * bfloat16_pack::size;
  if (first < in_packs) {
    store_eight(y + first, load_eight(x + first));
    return;
  }
  for (std::size_t i = first; i < n && i < first + bfloat16_pack::size; ++i)
    y[i] = float_of_bfloat16(x[i].bits);
}

unsigned blocks(std::size_t n) {
  constexpr std::size_t per_block = threads_per_block * bfloat16_pack::size;
  return static_cast<unsigned>((n + per_block - 1) / per_block);
}

template <class X, class Y>
std::size_t in_packs(const X* x, const Y* y, std::size_t n) {
  return are_packs(x, y) ? n / bfloat16_pack::size * bfloat16_pack::size : 0;
}

} // namespace

void round_floats(const cuda_stream& s, std::span<const float> x, bfloat16* y) {
  const std::size_t n = x.size();
  if (n == 0) return;
  launch(s, "round_floats", blocks(n), threads_per_block, 0, round_kernel, x.data(), y, n,
         in_packs(x.data(), y, n));
}

void widen_floats(const cuda_stream& s, std::span<const bfloat16> x, float* y) {
  const std::size_t n = x.size();
  if (n == 0) return;
  launch(s, "widen_floats", blocks(n), threads_per_block, 0, widen_kernel, x.data(), y, n,
         in_packs(x.data(), y, n));
}

} // namespace mailgrad::cuda
