#include <mailgrad/kernels/host/distance.hpp>

#include <mailgrad/kernels/functors/distance_terms.hpp>

#include <array>
#include <cstddef>

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

double host::inner_product(std::span<const float> a, std::span<const float> b) {
  return summed(a, b, functors::product{});
}

double host::squared_distance(std::span<const float> a, std::span<const float> b) {
  return summed(a, b, functors::square_of_difference{});
}

} // namespace mailgrad
