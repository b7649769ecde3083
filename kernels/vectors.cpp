#include <mailgrad/kernels/functors/distance_terms.hpp>
#include <mailgrad/kernels/gpu_body.hpp>
#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace mailgrad {
namespace {

void require_equal(const char* what, std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) throw shape_error(what, shape{a.size()}, shape{b.size()});
}

template <class F, std::size_t... i, std::size_t... o>
void loop(const F& f, const std::array<const float*, F::reads>& reads,
          const std::array<float*, F::writes>& writes, std::size_t n, std::index_sequence<i...>,
          std::index_sequence<o...>) {
#pragma omp simd
  for (std::size_t k = 0; k < n; ++k) f(reads[i][k]..., writes[o][k]...);
}

template <class F>
void run(const F& f, std::span<const float* const> reads, std::span<float* const> writes, std::size_t n) {
  std::array<const float*, F::reads> in{};
  std::array<float*, F::writes> out{};
  std::ranges::copy(reads, in.begin());
  std::ranges::copy(writes, out.begin());
  loop(f, in, out, n, std::make_index_sequence<F::reads>{}, std::make_index_sequence<F::writes>{});
}

void require_arrays(const char* what, std::size_t found, std::size_t expected) {
  if (found != expected)
    throw shape_error(
        fmt::format("map_weights: {} arrays to {}, where the function takes {}", found, what, expected));
}

/// The sum of term(a[i], b[i]), as sixteen partial sums in a fixed order. The same values give the same bits
/// at any vector width.
template <class Term>
double summed(std::span<const float> a, std::span<const float> b, Term term) {
  const std::size_t n = a.size();
  constexpr std::size_t lanes = 16;
  std::array<double, lanes> sums{};
  const std::size_t whole = n / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes) {
#pragma omp simd
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += term(a[i + lane], b[i + lane]);
  }
  for (std::size_t i = whole; i < n; ++i) sums[i - whole] += term(a[i], b[i]);
  for (std::size_t half = lanes / 2; half > 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0];
}

} // namespace

void fill(const stream& s, float value, std::span<float> x) {
  if (on_gpu<fill>(s, value, x)) return;
  std::ranges::fill(x, value);
}

void begin_sum(const stream& s, float scale, std::span<const float> x, std::span<float> sum) {
  require_equal("accumulate", x, sum);
  if (on_gpu<begin_sum>(s, scale, x, sum)) return;
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] = scale * x[i];
}

void add_to_sum(const stream& s, float scale, std::span<const float> x, std::span<float> sum) {
  require_equal("accumulate", x, sum);
  if (on_gpu<add_to_sum>(s, scale, x, sum)) return;
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] += scale * x[i];
}

void scale_in_place(const stream& s, float scale, std::span<float> x) {
  if (on_gpu<scale_in_place>(s, scale, x)) return;
  for (float& v : x) v *= scale;
}

void map_weights(const stream& s, const weight_function& f, std::span<const float* const> reads,
                 std::span<float* const> writes, std::size_t n) {
  std::visit(
      [&]<class F>(const F&) {
        require_arrays("read", reads.size(), F::reads);
        require_arrays("write", writes.size(), F::writes);
      },
      f);
  if (on_gpu<map_weights>(s, f, reads, writes, n)) return;
  std::visit([&](const auto& function) { run(function, reads, writes, n); }, f);
}

void sum_pairs(const stream& s, pair_sum what, std::span<const float> a, std::span<const float> b,
               double* result) {
  const bool products = what == pair_sum::inner_product;
  require_equal(products ? "inner product" : "squared distance", a, b);
  if (on_gpu<sum_pairs>(s, what, a, b, result)) return;
  *result = products ? summed(a, b, functors::product{}) : summed(a, b, functors::square_of_difference{});
}

double inner_product(const stream& s, std::span<const float> a, std::span<const float> b) {
  require_host(s, "inner_product");
  double result = 0;
  inner_product(s, a, b, &result);
  return result;
}

void inner_product(const stream& s, std::span<const float> a, std::span<const float> b, double* result) {
  sum_pairs(s, pair_sum::inner_product, a, b, result);
}

double squared_distance(const stream& s, std::span<const float> a, std::span<const float> b) {
  require_host(s, "squared_distance");
  double result = 0;
  squared_distance(s, a, b, &result);
  return result;
}

void squared_distance(const stream& s, std::span<const float> a, std::span<const float> b, double* result) {
  sum_pairs(s, pair_sum::squared_distance, a, b, result);
}

} // namespace mailgrad
