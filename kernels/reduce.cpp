#include <mailgrad/kernels/reduce.hpp>

#include <mailgrad/kernels/cuda/reduce.hpp>
#include <mailgrad/kernels/host/reduce.hpp>

namespace mailgrad {

sum_plan plan_sum(const shape& dims, const std::array<bool, shape::max_rank>& summed) {
  sum_plan p;
  for (std::size_t axis = 0; axis < dims.rank(); ++axis)
    if (!summed[axis]) p.result_size *= dims[axis];
  std::size_t step = p.result_size;
  for (std::size_t axis = 0; axis < dims.rank(); ++axis) {
    const std::size_t extent = dims[axis];
    if (!summed[axis] && extent != 0) step /= extent;
    const bool joins = p.rank > 0 && (p.steps[p.rank - 1] == 0) == summed[axis];
    if (!joins) ++p.rank;
    p.extents[p.rank - 1] = extent * (joins ? p.extents[p.rank - 1] : 1);
    p.steps[p.rank - 1] = summed[axis] ? 0 : step;
  }
  if (p.rank == 0) p.extents[p.rank++] = 1;
  return p;
}

bool sums_rows(const sum_plan& plan) { return plan.rank == 2 && plan.steps[0] == 0 && plan.extents[1] > 1; }

void sum(const stream& s, const sum_plan& plan, read_numbers x, float scale, float* y) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::sum(*card, plan, x, scale, y);
  host::sum(plan, floats_of(x, "sum"), scale, y);
}

void mean_squared_difference(const stream& s, const float* a, const float* b, std::size_t n, float* y) {
  if (const auto* card = std::get_if<cuda_stream>(&s))
    return cuda::mean_squared_difference(*card, a, b, n, y);
  host::mean_squared_difference(a, b, n, y);
}

} // namespace mailgrad
