#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/reduce.hpp>

namespace mailgrad::cuda {
namespace {

/// Rows of at most so many terms are summed by a warp or a part of one, longer ones by blocks.
constexpr std::size_t short_row = 1024;

/// The terms of a sum, and whether four may be loaded at once.
struct plain_terms {
  const float* x;
  bool packs;
  __device__ float at(std::size_t i) const { return x[i]; }
  __device__ float four_at(std::size_t i) const {
    const float_pack a = plain_pack(x + i);
    return (a.v[0] + a.v[1]) + (a.v[2] + a.v[3]);
  }
};

struct squared_differences {
  const float *a, *b;
  bool packs;
  __device__ float at(std::size_t i) const { return (a[i] - b[i]) * (a[i] - b[i]); }
  __device__ float four_at(std::size_t i) const {
    const float_pack x = plain_pack(a + i), y = plain_pack(b + i);
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
  float* const workspace = shared_memory<float>();
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
    total = block_sum(total, workspace);
    if (threadIdx.x == 0) y[blockIdx.y * n.rows + row] = scale * total;
  }
}

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
  constexpr std::size_t bytes = block_sum_bytes<float>;
  if (slices < 2)
    return launch(s, name, blocks, threads_per_block, bytes, row_kernel<Terms>, terms,
                  row_extents{rows, count, std::max<std::size_t>(count, 1)}, scale, y);
  const std::size_t of_slice = ((count + slices - 1) / slices + 3) / 4 * 4;
  const std::size_t used = (count + of_slice - 1) / of_slice;
  auto* const partial = static_cast<float*>(s.scratch);
  launch(s, name, dim3(blocks, static_cast<unsigned>(used)), threads_per_block, bytes, row_kernel<Terms>,
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

__global__ void general_kernel(axes kept, axes summed, const float* x, float scale, float* y) {
  float* const workspace = shared_memory<float>();
  for (std::size_t result = blockIdx.x; result < kept.size; result += gridDim.x) {
    const std::size_t first = kept.offset(result);
    float total = 0;
    total = strided_sum(threadIdx.x, summed.size, threads_per_block,
                        [&](std::size_t k) { return x[first + summed.offset(k)]; });
    total = block_sum(total, workspace);
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

/// Sums that are made of the same number of terms each. Result q has its first term at q / inner * outer_step
/// + q % inner, and the others `inner` elements apart.
template <class T>
struct column_terms {
  const T* x;
  std::size_t results, inner, outer_step, terms;
  std::size_t terms_of_slice; ///< in each slice of the grid
};

/// A block sums `lanes` neighbouring columns; the other threads of a column take the terms in turn. Row
/// `slice` of y gets the sums of one slice of the terms.
template <class T>
__global__ void column_kernel(column_terms<T> t, unsigned lanes, float scale, float* y) {
  float* const workspace = shared_memory<float>();
  const unsigned lane = threadIdx.x % lanes, group = threadIdx.x / lanes, groups = blockDim.x / lanes;
  const std::size_t result = std::size_t{blockIdx.x} * lanes + lane;
  const bool works = result < t.results && group < groups;
  const std::size_t first = std::size_t{blockIdx.y} * t.terms_of_slice;
  const std::size_t last = t.terms - first < t.terms_of_slice ? t.terms : first + t.terms_of_slice;
  float total = 0;
  if (works) {
    const T* const x = t.x; // null if there are no terms
    const std::size_t column = result / t.inner * t.outer_step + result % t.inner, inner = t.inner;
    total = strided_sum(first + group, last, groups,
                        [=](std::size_t i) { return as_float(x[column + i * inner]); });
  }
  workspace[threadIdx.x] = total;
  __syncthreads();
  if (!works || group != 0) return;
  for (unsigned other = 1; other < groups; ++other) total += workspace[other * lanes + lane];
  y[std::size_t{blockIdx.y} * t.results + result] = scale * total;
}

/// Narrow blocks of columns, each of which many threads share, where there are few results; at least 8
/// columns lie in each 32 bytes that a load moves.
unsigned lanes_for(std::size_t results, std::size_t terms) {
  if (terms < 32) return threads_per_block;
  if (results <= 64) return static_cast<unsigned>(results);
  return results < 4096 && terms < 1024 ? 8 : 32;
}

template <class T>
void launch_columns(const cuda_stream& s, const char* name, const column_terms<T>& t, unsigned slices,
                    float scale, float* y) {
  const unsigned lanes = lanes_for(t.results, t.terms);
  const auto blocks = static_cast<unsigned>((t.results + lanes - 1) / lanes);
  launch(s, name, dim3(blocks, slices), threads_per_block, threads_per_block * sizeof(float),
         column_kernel<T>, t, lanes, scale, y);
}

template <class T>
void sum_terms(const cuda_stream& s, const char* name, const T* x, const middle_axis& axis, float scale,
               float* y) {
  const std::size_t results = axis.outer * axis.inner;
  if (results == 0) return;
  const column_terms<T> all{x, results, axis.inner, axis.terms * axis.inner, axis.terms, axis.terms};
  const unsigned lanes = lanes_for(results, axis.terms);
  const std::size_t blocks = (results + lanes - 1) / lanes;
  const std::size_t least_terms = std::size_t{8} * threads_per_block / lanes; // of a slice
  const std::size_t slices = std::min({busy_blocks / std::min(blocks, busy_blocks), axis.terms / least_terms,
                                       s.scratch_bytes / sizeof(float) / results});
  if (slices < 2) return launch_columns(s, name, all, 1, scale, y);
  column_terms<T> sliced = all;
  sliced.terms_of_slice = (axis.terms + slices - 1) / slices;
  const std::size_t used = (axis.terms + sliced.terms_of_slice - 1) / sliced.terms_of_slice;
  auto* const partial = static_cast<float*>(s.scratch);
  launch_columns(s, name, sliced, static_cast<unsigned>(used), 1, partial);
  sum_columns(s, name, partial, used, results, scale, y);
}

} // namespace

void sum_middle(const cuda_stream& s, const char* name, read_numbers x, const middle_axis& axis, float scale,
                float* y) {
  std::visit([&](const auto* of) { sum_terms(s, name, of, axis, scale, y); }, x);
}

void sum_columns(const cuda_stream& s, const char* name, const float* x, std::size_t rows,
                 std::size_t columns, float scale, float* y) {
  if (columns > 0) launch_columns<float>(s, name, {x, columns, columns, 0, rows, rows}, 1, scale, y);
}

MAILGRAD_GPU_BODY(sum)
MAILGRAD_GPU_BODY(mean_squared_difference)

} // namespace mailgrad::cuda
