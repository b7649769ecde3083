#include <mailgrad/kernels/distance.hpp>
#include <mailgrad/kernels/functors/distance_terms.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <array>
#include <cstddef>
#include <span>

namespace mailgrad {

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
