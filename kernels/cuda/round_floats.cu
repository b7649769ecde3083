#include <mailgrad/kernels/cuda/round_floats.hpp>
#include <mailgrad/kernels/cuda/rounded_packs.hpp>

namespace mailgrad::cuda {

namespace {

/// A thread takes eight numbers. Those behind `in_packs` are taken one by one.
__global__ void round_kernel(const float* x, bfloat16* y, std::size_t n, std::size_t in_packs) {
  const std::size_t first = grid_thread() * bfloat16_pack::size;
  if (first < in_packs) {
    const float_pack a = load_pack(x + first), b = load_pack(x + first + float_pack::size);
    store_rounded(y + first, bfloat16_pack{{rounded_pair(a.v[0], a.v[1]), rounded_pair(a.v[2], a.v[3]),
                                            rounded_pair(b.v[0], b.v[1]), rounded_pair(b.v[2], b.v[3])}});
    return;
  }
  for (std::size_t i = first; i < n && i < first + bfloat16_pack::size; ++i)
    y[i].bits = bfloat16_of_float(x[i]);
}

__global__ void widen_kernel(const bfloat16* x, float* y, std::size_t n, std::size_t in_packs) {
  const std::size_t first = grid_thread() * bfloat16_pack::size;
  if (first < in_packs) {
    const bfloat16_pack p = load_pack(x + first);
    store_pack(y + first, {{first_of(p.v[0]), second_of(p.v[0]), first_of(p.v[1]), second_of(p.v[1])}});
    store_pack(y + first + float_pack::size,
               {{first_of(p.v[2]), second_of(p.v[2]), first_of(p.v[3]), second_of(p.v[3])}});
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
