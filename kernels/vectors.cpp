#include <mailgrad/kernels/functors/distance_terms.hpp>
#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

namespace mailgrad::host {

// On the calling thread. The caller has checked all sizes.

void fill(float value, std::span<float> x) { std::ranges::fill(x, value); }

void begin_sum(float scale, std::span<const float> x, std::span<float> sum) {
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] = scale * x[i];
}

void add_to_sum(float scale, std::span<const float> x, std::span<float> sum) {
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] += scale * x[i];
}

void scale_in_place(float scale, std::span<float> x) {
  for (float& v : x) v *= scale;
}

} // namespace mailgrad::host

namespace mailgrad {

namespace {

void require_equal(std::span<const float> x, std::span<const float> sum) {
  if (x.size() != sum.size()) throw shape_error("accumulate", shape{x.size()}, shape{sum.size()});
}

} // namespace

void fill(const stream& s, float value, std::span<float> x) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::fill(*card, value, x);
  host::fill(value, x);
}

void begin_sum(const stream& s, float scale, std::span<const float> x, std::span<float> sum) {
  require_equal(x, sum);
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::begin_sum(*card, scale, x, sum);
  host::begin_sum(scale, x, sum);
}

void add_to_sum(const stream& s, float scale, std::span<const float> x, std::span<float> sum) {
  require_equal(x, sum);
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::add_to_sum(*card, scale, x, sum);
  host::add_to_sum(scale, x, sum);
}

void scale_in_place(const stream& s, float scale, std::span<float> x) {
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::scale_in_place(*card, scale, x);
  host::scale_in_place(scale, x);
}

namespace {

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

} // namespace

namespace host {

// On the calling thread. The caller has checked the number of arrays.

void map_weights(const weight_function& f, std::span<const float* const> reads,
                 std::span<float* const> writes, std::size_t n) {
  std::visit([&](const auto& function) { run(function, reads, writes, n); }, f);
}

} // namespace host

namespace {

void require_arrays(const char* what, std::size_t found, std::size_t expected) {
  if (found != expected)
    throw shape_error(
        fmt::format("map_weights: {} arrays to {}, where the function takes {}", found, what, expected));
}

} // namespace

void map_weights(const stream& s, const weight_function& f, std::span<const float* const> reads,
                 std::span<float* const> writes, std::size_t n) {
  std::visit(
      [&]<class F>(const F&) {
        require_arrays("read", reads.size(), F::reads);
        require_arrays("write", writes.size(), F::writes);
      },
      f);
  if (const auto* gpu = std::get_if<cuda_stream>(&s)) return cuda::map_weights(*gpu, f, reads, writes, n);
  host::map_weights(f, reads, writes, n);
}

namespace {

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

namespace host {

// On the calling thread. The caller has checked all sizes.

double inner_product(std::span<const float> a, std::span<const float> b) {
  return summed(a, b, functors::product{});
}

double squared_distance(std::span<const float> a, std::span<const float> b) {
  return summed(a, b, functors::square_of_difference{});
}

} // namespace host

namespace {

void require_equal(const char* what, std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) throw shape_error(what, shape{a.size()}, shape{b.size()});
}

} // namespace

double inner_product(const stream& s, std::span<const float> a, std::span<const float> b) {
  require_host(s, "inner_product");
  require_equal("inner product", a, b);
  return host::inner_product(a, b);
}

void inner_product(const stream& s, std::span<const float> a, std::span<const float> b, double* result) {
  require_equal("inner product", a, b);
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::inner_product(*card, a, b, result);
  *result = host::inner_product(a, b);
}

double squared_distance(const stream& s, std::span<const float> a, std::span<const float> b) {
  require_host(s, "squared_distance");
  require_equal("squared distance", a, b);
  return host::squared_distance(a, b);
}

void squared_distance(const stream& s, std::span<const float> a, std::span<const float> b, double* result) {
  require_equal("squared distance", a, b);
  if (const auto* card = std::get_if<cuda_stream>(&s)) return cuda::squared_distance(*card, a, b, result);
  *result = host::squared_distance(a, b);
}

} // namespace mailgrad
