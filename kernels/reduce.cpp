#include <mailgrad/kernels/gpu_body.hpp>
#include <mailgrad/kernels/host/rows.hpp>
#include <mailgrad/kernels/reduce.hpp>

namespace mailgrad {
namespace {

/// The sum of term(i) for first <= i < last. It has 32 partial sums, since each addition to a single sum
/// would wait for the last.
template <class Term>
float sum_block(std::size_t first, std::size_t last, Term term) {
  constexpr std::size_t lanes = 32;
  std::array<float, lanes> partial{};
  std::size_t i = first;
  for (; i + lanes <= last; i += lanes)
#pragma omp simd
    for (std::size_t lane = 0; lane < lanes; ++lane) partial[lane] += term(i + lane);
  float rest = 0;
  for (; i < last; ++i) rest += term(i);
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) partial[lane] += partial[lane + half];
  return partial[0] + rest;
}

/// Sums long ranges by halves, so that the error grows with the logarithm of the length.
///
/// Source  Higham, "The accuracy of floating point summation", SIAM J. Sci. Comput. 14, 1993: pairwise sums.
template <class Term>
float sum_between(std::size_t first, std::size_t last, Term term) {
  constexpr std::size_t block = 4096;
  if (last - first <= block) return sum_block(first, last, term);
  const std::size_t middle = first + (last - first) / 2;
  return sum_between(first, middle, term) + sum_between(middle, last, term);
}

void add_row(const float* x, float* y, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) y[i] += x[i];
}

} // namespace

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
  if (on_gpu<sum>(s, plan, x, scale, y)) return;
  const float* from = floats_of(x, "sum");
  std::fill_n(y, plan.result_size, 0.0F);
  const auto extents = std::span(plan.extents).first(plan.rank);
  if (std::ranges::find(extents, std::size_t{0}) != extents.end()) return;

  const std::size_t inner = plan.rank - 1;
  odometer<1> at(extents, {plan.steps.data()});
  do {
    if (plan.steps[inner] == 0)
      y[at.offset(0)] += sum_between(0, extents[inner], [from](std::size_t i) { return from[i]; });
    else
      add_row(from, y + at.offset(0), extents[inner]);
    from += extents[inner];
  } while (at.advance());
  if (scale != 1)
    for (std::size_t i = 0; i < plan.result_size; ++i) y[i] *= scale;
}

void mean_squared_difference(const stream& s, const float* a, const float* b, std::size_t n, float* y) {
  if (on_gpu<mean_squared_difference>(s, a, b, n, y)) return;
  const auto square = [=](std::size_t i) { return (a[i] - b[i]) * (a[i] - b[i]); };
  *y = sum_between(0, n, square) / static_cast<float>(n);
}

} // namespace mailgrad
