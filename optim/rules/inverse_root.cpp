#include <mailgrad/optim/rules/inverse_root.hpp>

#include <mailgrad/kernels/accumulate.hpp>
#include <mailgrad/optim/clip.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace mailgrad {

namespace {

/// Small eigenvalues grow by (1 + 1/p)^p a step, 2.25 at least, so those of 1e-6 need 18 steps, and a few
/// more to converge.
constexpr int most_steps = 40;

/// The largest distance of an element from those of I. NaN if one is.
double distance_from_identity(std::size_t n, std::span<const float> m) {
  float most = 0;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      const float d = std::abs(m[i * n + j] - (i == j ? 1.0F : 0.0F));
      if (!(d <= most)) most = d;
    }
  return static_cast<double>(most);
}

void add_to_diagonal(std::size_t n, float x, std::span<float> m) {
  for (std::size_t i = 0; i < n; ++i) m[i * n + i] += x;
}

} // namespace

void inverse_root::expect(std::size_t n) {
  products_.expect({n, n, n});
  for (block* b : {&from_, &root_, &factor_, &power_, &spare_})
    if (b->bytes() < n * n * sizeof(float)) *b = block(n * n * sizeof(float));
}

void inverse_root::begin(std::size_t n, unsigned p, std::span<const float> a) {
  const std::span<float> m = from_.as<float>().first(n * n);
  std::ranges::copy(a, m.begin());
  add_to_diagonal(n, static_cast<float>(1e-6 * std::sqrt(sum_of_squares(host_stream{}, a))), m);
  const double z = (1.0 + p) / (2 * std::sqrt(sum_of_squares(host_stream{}, m)));
  scale_in_place(host_stream{}, static_cast<float>(z), m);
  const std::span<float> h = root_.as<float>().first(n * n);
  std::ranges::fill(h, 0.0F);
  add_to_diagonal(n, static_cast<float>(std::pow(z, 1.0 / p)), h);
}

/// One step of the iteration. Returns how far M is from I after it.
double inverse_root::iterate(std::size_t n, unsigned p) {
  const auto floats = [n](block& b) { return b.as<float>().first(n * n); };
  const std::span<float> t = floats(factor_);
  begin_sum(host_stream{}, -1.0F / static_cast<float>(p), floats(from_), t);
  add_to_diagonal(n, 1 + 1 / static_cast<float>(p), t);
  products_.multiply_square(n, floats(root_).data(), t.data(), floats(spare_).data());
  std::swap(root_, spare_);
  products_.multiply_square(n, t.data(), t.data(), floats(power_).data());
  if (p == 4) {
    products_.multiply_square(n, floats(power_).data(), floats(power_).data(), floats(spare_).data());
    std::swap(power_, spare_);
  }
  products_.multiply_square(n, floats(power_).data(), floats(from_).data(), floats(spare_).data());
  std::swap(from_, spare_);
  return distance_from_identity(n, floats(from_));
}

/// Near I the distance is squared at each step, so one that no longer halves is rounding alone.
bool inverse_root::compute(std::size_t n, unsigned p, std::span<const float> a, std::span<float> root) {
  constexpr double near = 0.05;
  begin(n, p, a);
  double before = distance_from_identity(n, from_.as<float>().first(n * n));
  for (int i = 0; i < most_steps; ++i) {
    const double distance = iterate(n, p);
    if (!std::isfinite(distance)) return false;
    const bool done = distance < 1e-6 || (distance < near && distance > before / 2);
    if (done) {
      std::ranges::copy(root_.as<float>().first(n * n), root.begin());
      return true;
    }
    before = distance;
  }
  return false;
}

} // namespace mailgrad
