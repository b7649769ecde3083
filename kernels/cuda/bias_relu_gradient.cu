#include <mailgrad/kernels/cuda/column_sum.hpp>
#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/elementwise.hpp>

#include <algorithm>
#include <bit>

namespace mailgrad::cuda {

namespace {

/// The matrices, of whose rows each row of blocks takes `rows_of_block`. A row of threads takes every
/// blockDim.y-th of them.
struct masked_rows {
  const float *y, *dy;
  float* dz;
  std::size_t rows, columns, rows_of_block;
};

template <unsigned size>
struct loaded_row {
  moved_floats<size> y, dy;
};

/// Writes dz for `size` neighbouring columns of this thread's rows; returns the sum of these.
template <unsigned size>
__device__ moved_floats<size> mask_rows(const masked_rows& m, std::size_t column) {
  constexpr unsigned together = 4; // rows that are under way at a time
  moved_floats<size> sum{};
  const std::size_t begin = blockIdx.y * m.rows_of_block;
  const std::size_t end = begin + m.rows_of_block < m.rows ? begin + m.rows_of_block : m.rows;
  for (std::size_t first = begin + threadIdx.y; first < end; first += std::size_t{together} * blockDim.y) {
    loaded_row<size> x[together] = {};
#pragma unroll
    for (unsigned i = 0; i < together; ++i)
      if (const std::size_t row = first + i * blockDim.y; row < end)
        x[i] = {load_floats<size>(m.y + row * m.columns + column),
                load_floats<size>(m.dy + row * m.columns + column)};
#pragma unroll
    for (unsigned i = 0; i < together; ++i) {
      moved_floats<size> d;
#pragma unroll
      for (unsigned k = 0; k < size; ++k) {
        d.v[k] = functors::relu_gradient{}(x[i].y.v[k], x[i].dy.v[k]);
        sum.v[k] += d.v[k]; // 0 for a row that is not there
      }
      if (const std::size_t row = first + i * blockDim.y; row < end)
        store_floats(m.dz + row * m.columns + column, d);
    }
  }
  return sum;
}

/// Writes to row blockIdx.y of `sums` what the rows of this block sum up to. The order of each sum depends
/// only on the shape.
template <unsigned size>
__global__ void bias_relu_gradient_kernel(masked_rows m, float* sums) {
  const std::size_t column = (std::size_t{blockIdx.x} * blockDim.x + threadIdx.x) * size;
  const bool exists = column < m.columns;
  auto* const room = shared_memory<moved_floats<size>>() + threadIdx.x;
  room[threadIdx.y * blockDim.x] = exists ? mask_rows<size>(m, column) : moved_floats<size>{};
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y >= half) continue;
#pragma unroll
    for (unsigned k = 0; k < size; ++k)
      room[threadIdx.y * blockDim.x].v[k] += room[(threadIdx.y + half) * blockDim.x].v[k];
  }
  if (exists && threadIdx.y == 0) store_floats(sums + blockIdx.y * m.columns + column, room[0]);
}

/// Blocks are at most a warp wide, and hardly wider than the columns need.
template <unsigned size>
void run(const cuda_stream& s, masked_rows m, float* db) {
  constexpr std::size_t enough_blocks = multiprocessors * 4; // each thread has eight loads under way
  const std::size_t packs = m.columns / size;
  const auto width = static_cast<unsigned>(std::min<std::size_t>(warp_size, std::bit_ceil(packs)));
  const std::size_t height = threads_per_block / width;
  const std::size_t blocks_beside = (packs + width - 1) / width;
  const std::size_t most_parts =
      std::clamp<std::size_t>(enough_blocks / blocks_beside, 1, (m.rows + height - 1) / height);
  const std::size_t parts =
      std::clamp<std::size_t>(s.scratch_bytes / sizeof(float) / m.columns, 1, most_parts);
  m.rows_of_block = (m.rows + parts - 1) / parts;
  const std::size_t sums = (m.rows + m.rows_of_block - 1) / m.rows_of_block;
  auto* const partial = static_cast<float*>(s.scratch);
  launch(s, "bias_relu_gradient", dim3(static_cast<unsigned>(blocks_beside), static_cast<unsigned>(sums)),
         dim3(width, static_cast<unsigned>(height)), sizeof(moved_floats<size>) * threads_per_block,
         bias_relu_gradient_kernel<size>, m, sums == 1 ? db : partial);
  if (sums > 1) sum_columns(s, "bias_relu_gradient", partial, sums, m.columns, 1, db);
}

} // namespace

void bias_relu_gradient(const cuda_stream& s, const float* y, const float* dy, float* dz, float* db,
                        std::size_t rows, std::size_t columns) {
  if (columns == 0) return;
  const masked_rows m{y, dy, dz, rows, columns, 0};
  if (rows == 0)
    runtime::fill(s.stream, db, 0, columns * sizeof(float));
  else if (columns % float_pack::size == 0 && are_packs(y, dy, dz, db))
    run<float_pack::size>(s, m, db);
  else
    run<1>(s, m, db);
}

} // namespace mailgrad::cuda
