#include <mailgrad/kernels/bias_gelu.hpp>
#include <mailgrad/kernels/cuda/column_sum.hpp>
#include <mailgrad/kernels/cuda/indices.hpp>
#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/functors/approximations.hpp>

#include <cstdint>

namespace mailgrad::cuda {

namespace {

/// Neighbours that a thread computes together: 1, or as many as fill 16 bytes of the smallest type.
template <unsigned count>
struct neighbours {
  float v[count];
};

template <unsigned count, class T>
__device__ neighbours<count> load_neighbours(const T* from) {
  neighbours<count> found;
  if constexpr (count == 1) {
    found.v[0] = as_float(*from);
  } else if constexpr (count == 4) {
    const float_pack p = load_pack(from);
#pragma unroll
    for (unsigned i = 0; i < count; ++i) found.v[i] = p.v[i];
  } else {
    const eight_floats p = load_eight(from);
#pragma unroll
    for (unsigned i = 0; i < count; ++i) found.v[i] = p.v[i];
  }
  return found;
}

template <unsigned count, class T>
__device__ void store_neighbours(T* to, const neighbours<count>& n) {
  if constexpr (count == 1)
    store_number(to, n.v[0]);
  else if constexpr (count == 4)
    store_pack(to, {{n.v[0], n.v[1], n.v[2], n.v[3]}});
  else
    store_eight(to, {{n.v[0], n.v[1], n.v[2], n.v[3], n.v[4], n.v[5], n.v[6], n.v[7]}});
}

template <unsigned count, class X, class Y, class Slope>
__global__ void bias_gelu_kernel(const X* x, const float* b, Y* y, Slope* slope,
                                 divider<std::uint32_t> columns, std::uint32_t n) {
  for (std::size_t k = grid_thread() * count; k < n; k += grid_threads() * count) {
    auto column = static_cast<std::uint32_t>(k);
    columns.divide(column);
    const auto from = load_neighbours<count>(x + k), bias = load_neighbours<count>(b + column);
    neighbours<count> to, slopes;
#pragma unroll
    for (unsigned i = 0; i < count; ++i) {
      const float z = from.v[i] + bias.v[i];
      const approximate::normal_parts normal = approximate::normal_at(z);
      to.v[i] = z * normal.share;
      slopes.v[i] = normal.share + z * normal.density;
    }
    store_neighbours(y + k, to);
    store_neighbours(slope + k, slopes);
  }
}

template <unsigned count, class A, class B, class Y>
__global__ void multiply_kernel(const A* a, const B* b, Y* y, std::size_t n) {
  for (std::size_t k = grid_thread() * count; k < n; k += grid_threads() * count) {
    const auto left = load_neighbours<count>(a + k), right = load_neighbours<count>(b + k);
    neighbours<count> to;
#pragma unroll
    for (unsigned i = 0; i < count; ++i) to.v[i] = left.v[i] * right.v[i];
    store_neighbours(y + k, to);
  }
}

/// How many neighbours fill 16 bytes of each type.
template <class... T>
constexpr unsigned in_a_pack = ((sizeof(T) == sizeof(float)) && ...) ? 4 : 8;

template <class X, class Y, class Slope>
void compute(const cuda_stream& s, const X* x, const float* b, Y* y, Slope* slope, std::size_t rows,
             std::size_t columns) {
  constexpr unsigned several = in_a_pack<X, Y, Slope>;
  const bool packs = columns % several == 0 && are_packs(x, b, y, slope);
  const auto kernel = packs ? bias_gelu_kernel<several, X, Y, Slope> : bias_gelu_kernel<1, X, Y, Slope>;
  for_row_chunks(s, "bias_gelu", rows, columns, [&](std::size_t first, std::size_t count) {
    const std::size_t at = first * columns, n = count * columns;
    launch(s, "bias_gelu", blocks_for(packs ? n / several : n), threads_per_block, 0, kernel, x + at, b,
           y + at, slope + at, divider<std::uint32_t>(columns), static_cast<std::uint32_t>(n));
  });
}

template <class Slope, class B, class Y>
void multiply(const cuda_stream& s, const Slope* slope, const B* dy, Y* dz, std::size_t n) {
  constexpr unsigned several = in_a_pack<Slope, B, Y>;
  const bool packs = n % several == 0 && are_packs(slope, dy, dz);
  launch(s, "bias_gelu_gradient", blocks_for(packs ? n / several : n), threads_per_block, 0,
         packs ? multiply_kernel<several, Slope, B, Y> : multiply_kernel<1, Slope, B, Y>, slope, dy, dz, n);
}

read_numbers as_read(const written_numbers& x) {
  return std::visit([](const auto* numbers) { return read_numbers(numbers); }, x);
}

} // namespace

void bias_gelu(const cuda_stream& s, read_numbers x, const float* b, written_numbers y, written_numbers slope,
               std::size_t rows, std::size_t columns) {
  if (rows * columns == 0) return;
  std::visit(
      [&](const auto* from, auto* to, auto* slopes) { compute(s, from, b, to, slopes, rows, columns); }, x, y,
      slope);
}

void bias_gelu_gradient(const cuda_stream& s, read_numbers slope, read_numbers dy, written_numbers dz,
                        float* db, std::size_t rows, std::size_t columns) {
  if (columns == 0) return;
  const std::size_t n = rows * columns;
  if (n > 0)
    std::visit([&](const auto* slopes, const auto* from, auto* to) { multiply(s, slopes, from, to, n); },
               slope, dy, dz);
  sum_middle(s, "bias_gelu_gradient", as_read(dz), {1, rows, columns}, 1, db);
}

} // namespace mailgrad::cuda
