#include <mailgrad/kernels/cuda/column_sum.hpp>
#include <mailgrad/kernels/cuda/launch.hpp>
#include <mailgrad/kernels/cuda/packs.hpp>

namespace mailgrad::cuda {

namespace {

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
  float* const room = shared_memory<float>();
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
  room[threadIdx.x] = total;
  __syncthreads();
  if (!works || group != 0) return;
  for (unsigned other = 1; other < groups; ++other) total += room[other * lanes + lane];
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

} // namespace mailgrad::cuda
