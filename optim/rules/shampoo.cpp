#include <mailgrad/kernels/update.hpp>
#include <mailgrad/kernels/vectors.hpp>
#include <mailgrad/optim/clip.hpp>
#include <mailgrad/optim/rules/shampoo.hpp>

#include <algorithm>
#include <array>
#include <bit>
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

namespace {

gemm_shape left_square(const matrix_dims& d) {
  return {d.rows, d.rows, d.columns, operand_order::as_is, operand_order::transposed};
}
gemm_shape right_square(const matrix_dims& d) {
  return {d.columns, d.columns, d.rows, operand_order::transposed, operand_order::as_is};
}
gemm_shape times_left(const matrix_dims& d) { return {d.rows, d.columns, d.rows}; }
gemm_shape times_right(const matrix_dims& d) { return {d.rows, d.columns, d.columns}; }

} // namespace

std::size_t floats_of_matrices(const shampoo_options& options, const shape& dims) {
  if (dims.rank() < 2) return 0;
  const matrix_dims m = as_matrix(dims);
  std::size_t floats = 0;
  for (const std::size_t n : {m.rows, m.columns})
    if (n <= options.largest) floats += 2 * n * n; // a sum and its root
  return floats;
}

shampoo_rule::shampoo_rule(const shampoo_options& options, std::size_t shard_size,
                           std::span<const shard_variable> variables)
    : options_(options), sum_of_squares_(shard_size * sizeof(float)) {
  for (const shard_variable& v : variables) {
    place at{v.offset, as_matrix(v.dims)};
    if (v.dims.rank() >= 2 && !v.in_rows) {
      at.left = reserve(left_, at.dims.rows);
      at.right = reserve(right_, at.dims.columns);
      expect(at.dims, at);
    }
    places_.push_back(at);
  }
  begin(left_);
  begin(right_);
  for (const place& at : places_) {
    if (at.left)
      for (std::size_t i = 0; i < at.dims.rows; ++i)
        left_.sums.as<float>()[*at.left + i * (at.dims.rows + 1)] = static_cast<float>(options_.epsilon);
    if (at.right)
      for (std::size_t i = 0; i < at.dims.columns; ++i)
        right_.sums.as<float>()[*at.right + i * (at.dims.columns + 1)] = static_cast<float>(options_.epsilon);
  }
}

std::optional<std::size_t> shampoo_rule::reserve(side& s, std::size_t n) {
  if (n > options_.largest) return std::nullopt;
  const std::size_t begin = s.floats;
  s.floats += n * n;
  return begin;
}

void shampoo_rule::begin(side& s) {
  s.sums = block(s.floats * sizeof(float));
  s.roots = block(s.floats * sizeof(float));
}

void shampoo_rule::expect(const matrix_dims& dims, const place& at) {
  const std::size_t floats = dims.rows * dims.columns;
  if (at.left) {
    products_.expect(left_square(dims));
    products_.expect(times_left(dims));
    root_.expect(dims.rows);
    grow(square_, dims.rows * dims.rows);
    grow(half_, floats);
  }
  if (!at.right) return;
  products_.expect(right_square(dims));
  products_.expect(times_right(dims));
  root_.expect(dims.columns);
  grow(square_, dims.columns * dims.columns);
  grow(whole_, floats);
}

bool shampoo_rule::roots_are_due(std::uint64_t step) const {
  return step % options_.every == 0 || (step < options_.every && std::has_single_bit(step));
}

/// A variable may get its first gradient at any step of the shard. A root has no zero on its diagonal.
bool shampoo_rule::has_roots(const place& at) const {
  return (!at.left || left_.roots.as<float>()[*at.left] != 0) &&
         (!at.right || right_.roots.as<float>()[*at.right] != 0);
}

void shampoo_rule::update(const variable_step& work) {
  const place& at = places_[work.variable];
  if (!at.left && !at.right) return update_by_adagrad(work, at);
  add_square(work, at);
  if (roots_are_due(work.step) || !has_roots(at)) find_roots(at);
  scale_in_place(host_stream{}, static_cast<float>(1 - work.rate * work.decay), work.weights);
  add_to_sum(host_stream{}, static_cast<float>(-work.rate), preconditioned(work, at), work.weights);
}

void shampoo_rule::add_square(const variable_step& work, const place& at) {
  const float* const g = work.gradient.data();
  const auto add = [&](const gemm_shape& square, block& sums, std::size_t begin) {
    const std::span<float> product = square_.as<float>().first(square.m * square.m);
    products_.multiply(square, g, g, product.data());
    add_to_sum(host_stream{}, 1, product, sums.as<float>().subspan(begin, product.size()));
  };
  if (at.left) add(left_square(at.dims), left_.sums, *at.left);
  if (at.right) add(right_square(at.dims), right_.sums, *at.right);
}

/// A root that the iteration does not find stays as it was, as Anil et al. do.
void shampoo_rule::find_roots(const place& at) {
  const unsigned p = at.left && at.right ? 4 : 2;
  const auto find = [&](side& s, std::size_t begin, std::size_t n) {
    root_.compute(n, p, s.sums.as<float>().subspan(begin, n * n), s.roots.as<float>().subspan(begin, n * n));
  };
  if (at.left) find(left_, *at.left, at.dims.rows);
  if (at.right) find(right_, *at.right, at.dims.columns);
}

std::span<const float> shampoo_rule::preconditioned(const variable_step& work, const place& at) {
  std::span<const float> result = work.gradient;
  if (at.left) {
    const std::span<float> half = half_.as<float>().first(result.size());
    products_.multiply(times_left(at.dims), left_.roots.as<float>().data() + *at.left, result.data(),
                       half.data());
    result = half;
  }
  if (at.right) {
    const std::span<float> whole = whole_.as<float>().first(result.size());
    products_.multiply(times_right(at.dims), result.data(), right_.roots.as<float>().data() + *at.right,
                       whole.data());
    result = whole;
  }
  return result;
}

void shampoo_rule::update_by_adagrad(const variable_step& work, const place& at) {
  const scaled_gradient gradient{work.gradient.data(), 1};
  const weight_penalty penalty{0, static_cast<float>(work.rate * work.decay)};
  const std::array states{sum_of_squares_.as<float>().data() + at.offset};
  mailgrad::update(host_stream{},
                   adagrad_update{static_cast<float>(work.rate), static_cast<float>(options_.epsilon)},
                   penalty, {work.weights, work.weights, {&gradient, 1}}, states);
}

void shampoo_rule::update_rows(const rows_step& work) {
  const weight_penalty penalty{static_cast<float>(work.l2), static_cast<float>(work.rate * work.decay)};
  const std::array states{sum_of_squares_.as<float>().data() + work.first};
  mailgrad::update_rows(host_stream{},
                        adagrad_update{static_cast<float>(work.rate), static_cast<float>(options_.epsilon)},
                        penalty, work.rows, states);
}

std::vector<optimizer_state> shampoo_rule::state() {
  return {{"sum_of_squares", sum_of_squares_.as<float>()},
          {"left", left_.sums.as<float>()},
          {"left root", left_.roots.as<float>()},
          {"right", right_.sums.as<float>()},
          {"right root", right_.roots.as<float>()}};
}

} // namespace mailgrad
