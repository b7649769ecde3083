#include <mailgrad/kernels/cuda/bias_gelu.hpp>
#include <mailgrad/kernels/cuda/column_sum.hpp>
#include <mailgrad/kernels/cuda/divider.hpp>
#include <mailgrad/kernels/cuda/launch.hpp>
#include <mailgrad/kernels/cuda/row_chunks.hpp>
#include <mailgrad/kernels/functors/approximations.hpp>

#include <cstdint>

namespace mailgrad::cuda {

namespace {

/// Neighbours that a thread computes together.
template <unsigned count>
struct alignas(count * sizeof(float)) pack {
  float v[count];
};

template <unsigned count>
__device__ pack<count> pack_at(const float* from) {
  return *reinterpret_cast<const pack<count>*>(from);
}

template <unsigned count>
__global__ void bias_gelu_kernel(const float* x, const float* b, float* y, float* slope,
                                 divider<std::uint32_t> columns, std::uint32_t n) {
  for (std::size_t k = grid_thread() * count; k < n; k += grid_threads() * count) {
    auto column = static_cast<std::uint32_t>(k);
    columns.divide(column);
    const auto from = pack_at<count>(x + k), bias = pack_at<count>(b + column);
    pack<count> to, slopes;
#pragma unroll
    for (unsigned i = 0; i < count; ++i) {
      const float z = from.v[i] + bias.v[i];
      const approximate::normal_parts normal = approximate::normal_at(z);
      to.v[i] = z * normal.share;
      slopes.v[i] = normal.share + z * normal.density;
    }
    *reinterpret_cast<pack<count>*>(y + k) = to;
    *reinterpret_cast<pack<count>*>(slope + k) = slopes;
  }
}

template <unsigned count>
__global__ void multiply_kernel(const float* a, const float* b, float* y, std::size_t n) {
  for (std::size_t k = grid_thread() * count; k < n; k += grid_threads() * count) {
    const auto left = pack_at<count>(a + k), right = pack_at<count>(b + k);
    pack<count> to;
#pragma unroll
    for (unsigned i = 0; i < count; ++i) to.v[i] = left.v[i] * right.v[i];
    *reinterpret_cast<pack<count>*>(y + k) = to;
  }
}

constexpr unsigned four = float_pack::size;

} // namespace

void bias_gelu(const cuda_stream& s, const float* x, const float* b, float* y, float* slope, std::size_t rows,
               std::size_t columns) {
  if (rows * columns == 0) return;
  const bool packs = columns % four == 0 && are_packs(x, b, y, slope);
  const auto kernel = packs ? bias_gelu_kernel<four> : bias_gelu_kernel<1>;
  for_row_chunks(s, "bias_gelu", rows, columns, [&](std::size_t first, std::size_t count) {
    const std::size_t at = first * columns, n = count * columns;
    launch(s, "bias_gelu", blocks_for(packs ? n / four : n), threads_per_block, 0, kernel, x + at, b, y + at,
           slope + at, divider<std::uint32_t>(columns), static_cast<std::uint32_t>(n));
  });
}

void bias_gelu_gradient(const cuda_stream& s, const float* slope, const float* dy, float* dz, float* db,
                        std::size_t rows, std::size_t columns) {
  if (columns == 0) return;
  const std::size_t n = rows * columns;
  const bool packs = n % four == 0 && are_packs(slope, dy, dz);
  if (n > 0)
    launch(s, "bias_gelu_gradient", blocks_for(packs ? n / four : n), threads_per_block, 0,
           packs ? multiply_kernel<four> : multiply_kernel<1>, slope, dy, dz, n);
  sum_middle(s, "bias_gelu_gradient", dz, {1, rows, columns}, 1, db);
}

} // namespace mailgrad::cuda
