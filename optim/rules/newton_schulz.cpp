#include <mailgrad/optim/rules/newton_schulz.hpp>

#include <mailgrad/kernels/accumulate.hpp>
#include <mailgrad/optim/clip.hpp>

#include <algorithm>
#include <cmath>

namespace mailgrad {

namespace {

constexpr float a = 3.4445F;
constexpr float b = -4.7750F;
constexpr float c = 2.0315F;

bool is_wide(const matrix_dims& d) { return d.rows <= d.columns; }
std::size_t short_side(const matrix_dims& d) { return std::min(d.rows, d.columns); }

/// X X^T of a wide matrix, else X^T X.
gemm_shape square_of(const matrix_dims& d) {
  if (is_wide(d)) return {d.rows, d.rows, d.columns, operand_order::as_is, operand_order::transposed};
  return {d.columns, d.columns, d.rows, operand_order::transposed, operand_order::as_is};
}

/// B X of a wide matrix, else X B.
gemm_shape product_of(const matrix_dims& d) { return {d.rows, d.columns, short_side(d)}; }

/// y = p x + q y
void combine(float p, std::span<const float> x, float q, std::span<float> y) {
#pragma omp simd
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = p * x[i] + q * y[i];
}

} // namespace

void newton_schulz::expect(const matrix_dims& dims) {
  const std::size_t n = short_side(dims);
  products_.expect(square_of(dims));
  products_.expect(product_of(dims));
  products_.expect({n, n, n});
  grow(square_, n * n);
  grow(next_square_, n * n);
  grow(product_, dims.rows * dims.columns);
}

void newton_schulz::orthogonalise(std::span<float> x, const matrix_dims& dims) {
  const std::size_t n = short_side(dims);
  const std::span<float> square = square_.as<float>().first(n * n);
  const std::span<float> next = next_square_.as<float>().first(n * n);
  const std::span<float> product = product_.as<float>().first(x.size());
  const double length = std::sqrt(sum_of_squares(host_stream{}, x));
  scale_in_place(host_stream{}, static_cast<float>(1 / (length + 1e-7)), x);
  for (int i = 0; i < steps; ++i) {
    products_.multiply(square_of(dims), x.data(), x.data(), square.data());
    products_.multiply_square(n, square.data(), square.data(), next.data());
    combine(b, square, c, next);
    const float* const left = is_wide(dims) ? next.data() : x.data();
    const float* const right = is_wide(dims) ? x.data() : next.data();
    products_.multiply(product_of(dims), left, right, product.data());
    combine(1, product, a, x);
  }
}

} // namespace mailgrad
