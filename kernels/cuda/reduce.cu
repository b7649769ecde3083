#include <mailgrad/kernels/cuda/column_sum.hpp>
#include <mailgrad/kernels/cuda/launch.hpp>
#include <mailgrad/kernels/reduce.hpp>

#include <algorithm>

namespace mailgrad::cuda {

namespace {

/// Rows of at most so many terms are summed by a warp or a part of one, longer ones by blocks.
constexpr std::size_t short_row = 1024;

__device__ float_pack pack_of(const float* x, std::size_t i) {
  return *reinterpret_cast<const float_pack*>(x + i);
}

/// The terms of a sum, and whether four may be loaded at once.
struct plain_terms {
  const float* x;
  bool packs;

  __device__ float at(std::size_t i) const { return x[i]; }
  __device__ float four_at(std::size_t i) const {
    const float_pack a = pack_of(x, i);
    return (a.v[0] + a.v[1]) + (a.v[2] + a.v[3]);
  }
};

struct squared_differences {
  const float *a, *b;
  bool packs;

  __device__ float at(std::size_t i) const { return (a[i] - b[i]) * (a[i] - b[i]); }
  __device__ float four_at(std::size_t i) const {
    const float_pack x = pack_of(a, i), y = pack_of(b, i);
    float square[float_pack::size];
    for (std::size_t k = 0; k < float_pack::size; ++k) square[k] = (x.v[k] - y.v[k]) * (x.v[k] - y.v[k]);
    return (square[0] + square[1]) + (square[2] + square[3]);
  }
};

/// Rows of `terms` each; a slice has `terms_of_slice` of them, a multiple of four.
struct row_extents {
  std::size_t rows, terms, terms_of_slice;
};

/// Block (x, y) sums slice y of row x, of row x + gridDim.x and so on.
template <class Terms>
__global__ void row_kernel(Terms terms, row_extents n, float scale, float* y) {
  float* const room = shared_memory<float>();
  const std::size_t first = std::size_t{blockIdx.y} * n.terms_of_slice;
  const std::size_t last = n.terms - first < n.terms_of_slice ? n.terms : first + n.terms_of_slice;
  for (std::size_t row = blockIdx.x; row < n.rows; row += gridDim.x) {
    const std::size_t begin = row * n.terms + first, end = row * n.terms + last;
    float total = 0;
    std::size_t rest = begin;
    if (terms.packs) {
      constexpr std::size_t step = std::size_t{float_pack::size} * threads_per_block;
      rest = begin + (end - begin) / float_pack::size * float_pack::size;
      total = strided_sum(begin + threadIdx.x * float_pack::size, rest, step,
                          [=](std::size_t i) { return terms.four_at(i); });
    }
    total +=
        strided_sum(rest + threadIdx.x, end, threads_per_block, [=](std::size_t i) { return terms.at(i); });
    total = block_sum(total, room);
    if (threadIdx.x == 0) y[blockIdx.y * n.rows + row] = scale * total;
  }
}

/// Each `lanes` neighbouring threads sum a row.
__global__ void short_row_kernel(const float* x, row_extents n, unsigned lanes, float scale, float* y) {
  const unsigned lane = threadIdx.x % lanes;
  const std::size_t step = grid_threads() / lanes;
  const std::size_t group = grid_thread() / lanes;
  // All threads of a warp take the same number of turns, since they exchange what they have.
  for (std::size_t turn = 0; turn < n.rows; turn += step) {
    const std::size_t row = turn + group;
    float total = 0;
    if (row < n.rows) {
      const float* const from = x + row * n.terms;
      total = strided_sum(lane, n.terms, lanes, [=](std::size_t i) { return from[i]; });
    }
    for (unsigned distance = lanes / 2; distance > 0; distance /= 2)
      total += __shfl_xor_sync(0xffffffffU, total, distance);
    if (row < n.rows && lane == 0) y[row] = scale * total;
  }
}

/// y[slice, row] for few and long rows, then the sum over the slices.
template <class Terms>
void sum_long_rows(const cuda_stream& s, const char* name, const Terms& terms, std::size_t rows,
                   std::size_t count, float scale, float* y) {
  constexpr std::size_t least_terms = 4096; // of a slice
  const std::size_t slices = std::min({busy_blocks / std::min(rows, busy_blocks), count / least_terms,
                                       s.scratch_bytes / sizeof(float) / rows});
  const auto blocks = static_cast<unsigned>(std::min(rows, busy_blocks * 2));
  constexpr std::size_t room = block_sum_bytes<float>;
  if (slices < 2) {
    launch(s, name, blocks, threads_per_block, room, row_kernel<Terms>, terms,
           row_extents{rows, count, std::max<std::size_t>(count, 1)}, scale, y);
    return;
  }
  const std::size_t of_slice = ((count + slices - 1) / slices + 3) / 4 * 4;
  const std::size_t used = (count + of_slice - 1) / of_slice;
  auto* const partial = static_cast<float*>(s.scratch);
  launch(s, name, dim3(blocks, static_cast<unsigned>(used)), threads_per_block, room, row_kernel<Terms>,
         terms, row_extents{rows, count, of_slice}, 1.0F, partial);
  sum_columns(s, name, partial, used, rows, scale, y);
}

void sum_rows(const cuda_stream& s, const float* x, std::size_t rows, std::size_t count, float scale,
              float* y) {
  if (count > short_row || rows < 32)
    return sum_long_rows(s, "sum", plain_terms{x, are_packs(x) && (rows == 1 || count % 4 == 0)}, rows, count,
                         scale, y);
  unsigned lanes = 1;
  while (lanes < warp_size && lanes * 4 < count) lanes *= 2;
  launch(s, "sum", blocks_for(rows, threads_per_block / lanes), threads_per_block, 0, short_row_kernel, x,
         row_extents{rows, count, count}, lanes, scale, y);
}

/// Axes that are walked together: their extents and their strides in x.
struct axes {
  std::size_t extents[shape::max_rank], steps[shape::max_rank];
  unsigned count;
  std::size_t size;

  __device__ std::size_t offset(std::size_t k) const {
    std::size_t at = 0;
    for (unsigned axis = count; axis-- > 0; k /= extents[axis]) at += k % extents[axis] * steps[axis];
    return at;
  }
};

/// Blocks take the results in turn.
__global__ void general_kernel(axes kept, axes summed, const float* x, float scale, float* y) {
  float* const room = shared_memory<float>();
  for (std::size_t result = blockIdx.x; result < kept.size; result += gridDim.x) {
    const std::size_t first = kept.offset(result);
    float total = 0;
    total = strided_sum(threadIdx.x, summed.size, threads_per_block,
                        [&](std::size_t k) { return x[first + summed.offset(k)]; });
    total = block_sum(total, room);
    if (threadIdx.x == 0) y[result] = scale * total;
  }
}

/// The axes of the plan that are summed, or those that are kept.
axes axes_of(const sum_plan& plan, bool summed) {
  axes made{};
  made.size = 1;
  std::size_t step = 1;
  for (std::size_t axis = plan.rank; axis-- > 0; step *= plan.extents[axis])
    if ((plan.steps[axis] == 0) == summed) {
      made.size *= plan.extents[axis];
      made.extents[made.count] = plan.extents[axis];
      made.steps[made.count++] = step;
    }
  std::reverse(made.extents, made.extents + made.count);
  std::reverse(made.steps, made.steps + made.count);
  return made;
}

} // namespace

void sum(const cuda_stream& s, const sum_plan& plan, read_numbers numbers, float scale, float* y) {
  if (plan.result_size == 0) return;
  if (sums_rows(plan)) return sum_middle(s, "sum", numbers, {1, plan.extents[0], plan.extents[1]}, scale, y);
  const float* const x = floats_of(numbers, "sum");
  const axes kept = axes_of(plan, false), summed = axes_of(plan, true);
  if (summed.count == 0 || (summed.count == 1 && summed.steps[0] > 1)) {
    const std::size_t terms = summed.size, inner = summed.count == 0 ? kept.size : summed.steps[0];
    return sum_middle(s, "sum", x, {kept.size / inner, terms, inner}, scale, y);
  }
  if (summed.count == 1 && kept.count <= 1) return sum_rows(s, x, kept.size, summed.size, scale, y);
  const auto blocks = static_cast<unsigned>(std::min(kept.size, busy_blocks * 2));
  launch(s, "sum", blocks, threads_per_block, block_sum_bytes<float>, general_kernel, kept, summed, x, scale,
         y);
}

void mean_squared_difference(const cuda_stream& s, const float* a, const float* b, std::size_t n, float* y) {
  sum_long_rows(s, "mean_squared_difference", squared_differences{a, b, are_packs(a, b)}, 1, n,
                1 / static_cast<float>(n), y);
}

} // namespace mailgrad::cuda
