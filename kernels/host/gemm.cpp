#include <mailgrad/kernels/gemm.hpp>

#include <mailgrad/kernels/cuda/gemm.hpp>
#include <mailgrad/kernels/host/gemm_tile.hpp>
#include <mailgrad/kernels/host/transpose.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace mailgrad {

namespace {

/// Rows of B that are packed at a time: with `columns` floats each, half of a 32 KiB L1 cache.
constexpr std::size_t k_block = 256;

/// Fewer columns of C than this are too few to be walked in vectors.
constexpr std::size_t narrow = 3 * simd::width / 2;

using multiply_function = void (*)(const tile::left_part&, const tile::right_part&, std::size_t, float*,
                                   std::size_t, tile::into);

template <std::size_t Vectors, std::size_t... Rows>
constexpr std::array<multiply_function, sizeof...(Rows)> multiply_table(std::index_sequence<Rows...>) {
  return {tile::multiply<Rows + 1, Vectors>...};
}

/// By number of rows less one.
constexpr auto one_vector = multiply_table<1>(std::make_index_sequence<tile::rows>{});
constexpr auto two_vectors = multiply_table<2>(std::make_index_sequence<tile::rows>{});

enum class method : std::uint8_t { panels, dots, transposed_panels };

method choose(const gemm_shape& g) {
  if (g.n >= narrow || g.m <= g.n) return method::panels;
  if (g.a == operand_order::transposed) return method::transposed_panels;
  return g.k >= 2 * simd::width ? method::dots : method::panels;
}

/// C^T = B^T A^T
gemm_shape mirrored(const gemm_shape& g) {
  const auto other = [](operand_order o) {
    return o == operand_order::as_is ? operand_order::transposed : operand_order::as_is;
  };
  return {g.n, g.m, g.k, other(g.b), other(g.a), 1};
}

/// One product, B packed in panels of as many columns as a register tile has.
class panel_product {
public:
  panel_product(const gemm_shape& g, const float* a, const float* b, float* c, float* panel)
      : g_(g), a_(a), b_(b), c_(c), panel_(panel) {}

  static std::size_t scratch_floats(const gemm_shape& g) {
    return std::min(g.k, k_block) * tile::columns + tile::rows * tile::columns;
  }

  void run() const {
    for (std::size_t first = 0; first < g_.k; first += k_block) {
      const std::size_t depth = std::min(k_block, g_.k - first);
      for (std::size_t column = 0; column < g_.n; column += tile::columns)
        fill_columns(column, std::min(tile::columns, g_.n - column), first, depth);
    }
  }

private:
  void fill_columns(std::size_t column, std::size_t count, std::size_t first, std::size_t depth) const {
    const std::size_t vectors = count > simd::width ? 2 : 1;
    const auto& table = vectors == 2 ? two_vectors : one_vector;
    const auto right = right_part(column, count, first, depth, vectors * simd::width);
    const auto how = first == 0 ? tile::into::overwrite : tile::into::add;
    for (std::size_t row = 0; row < g_.m; row += tile::rows) {
      const std::size_t rows = std::min(tile::rows, g_.m - row);
      float* const c = c_ + row * g_.n + column;
      if (count == vectors * simd::width)
        table[rows - 1](left_part(row, first), right, depth, c, g_.n, how);
      else
        fill_edge(table[rows - 1], left_part(row, first), right, depth, c, rows, count, how);
    }
  }

  /// A tile that reaches over the right edge of C is computed beside it.
  void fill_edge(multiply_function multiply, const tile::left_part& left, const tile::right_part& right,
                 std::size_t depth, float* c, std::size_t rows, std::size_t count, tile::into how) const {
    float* const whole = panel_ + std::min(g_.k, k_block) * tile::columns;
    multiply(left, right, depth, whole, tile::columns, tile::into::overwrite);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t i = 0; i < count; ++i) {
        const float before = how == tile::into::add ? c[r * g_.n + i] : 0;
        c[r * g_.n + i] = before + whole[r * tile::columns + i];
      }
  }

  tile::left_part left_part(std::size_t row, std::size_t first) const {
    if (g_.a == operand_order::as_is) return {a_ + row * g_.k + first, g_.k, 1};
    return {a_ + first * g_.m + row, 1, g_.m};
  }

  /// Packed, unless so few rows read it that it is not worth it.
  tile::right_part right_part(std::size_t column, std::size_t count, std::size_t first, std::size_t depth,
                              std::size_t width) const {
    const bool few_readers = g_.m <= 2 * tile::rows;
    if (g_.b == operand_order::transposed) {
      if (count < width) std::fill_n(panel_, depth * width, 0.0F);
      transpose(b_ + column * g_.k + first, g_.k, panel_, width, count, depth);
      return {panel_, width};
    }
    const float* const from = b_ + first * g_.n + column;
    if (count == width && few_readers) return {from, g_.n};
    if (count == width)
      for (std::size_t p = 0; p < depth; ++p)
        for (std::size_t i = 0; i < width; i += simd::width)
          simd::store(panel_ + p * width + i, simd::load(from + p * g_.n + i));
    else
      for (std::size_t p = 0; p < depth; ++p)
        for (std::size_t i = 0; i < width; ++i) panel_[p * width + i] = i < count ? from[p * g_.n + i] : 0;
    return {panel_, width};
  }

  gemm_shape g_;
  const float* a_;
  const float* b_;
  float* c_;
  float* panel_;
};

template <std::size_t Rows>
void dot_rows(const gemm_shape& g, const float* a, const float* b, float* c) {
  std::size_t j = 0;
  for (; j + 5 <= g.n; j += 5) tile::dot<Rows, 5>(a, g.k, b + j * g.k, g.k, g.k, c + j, g.n);
  for (; j + 2 <= g.n; j += 2) tile::dot<Rows, 2>(a, g.k, b + j * g.k, g.k, g.k, c + j, g.n);
  if (j < g.n) tile::dot<Rows, 1>(a, g.k, b + j * g.k, g.k, g.k, c + j, g.n);
}

/// Few columns: B is turned once, then every element of C is a dot product of two rows.
void dot_product(const gemm_shape& g, const float* a, const float* b, float* c, float* turned) {
  if (g.b == operand_order::as_is) {
    transpose(b, g.n, turned, g.k, g.k, g.n);
    b = turned;
  }
  std::size_t i = 0;
  for (; i + 2 <= g.m; i += 2) dot_rows<2>(g, a + i * g.k, b, c + i * g.n);
  if (i < g.m) dot_rows<1>(g, a + i * g.k, b, c + i * g.n);
}

void multiply_one(const gemm_shape& g, const float* a, const float* b, float* c, float* scratch) {
  switch (choose(g)) {
  case method::panels:
    return panel_product(g, a, b, c, scratch).run();
  case method::dots:
    return dot_product(g, a, b, c, scratch);
  case method::transposed_panels: {
    float* const turned = scratch + panel_product::scratch_floats(mirrored(g));
    panel_product(mirrored(g), b, a, turned, scratch).run();
    transpose(turned, g.m, c, g.n, g.n, g.m);
  }
  }
}

} // namespace

std::size_t gemm_scratch_bytes(const gemm_shape& g) noexcept {
  switch (choose(g)) {
  case method::panels:
    return panel_product::scratch_floats(g) * sizeof(float);
  case method::dots:
    return g.n * g.k * sizeof(float);
  case method::transposed_panels:
    return (panel_product::scratch_floats(mirrored(g)) + g.m * g.n) * sizeof(float);
  }
  return 0;
}

void gemm(const stream& s, const gemm_shape& g, const float* a, const float* b, float* c, void* scratch) {
  if (const auto* gpu = std::get_if<cuda_stream>(&s)) return cuda::gemm(*gpu, g, a, b, c);
  if (g.k == 0) std::fill_n(c, g.batch * g.m * g.n, 0.0F);
  if (g.k == 0 || g.m == 0 || g.n == 0) return;
  for (std::size_t i = 0; i < g.batch; ++i)
    multiply_one(g, a + i * g.m * g.k, b + i * g.k * g.n, c + i * g.m * g.n, static_cast<float*>(scratch));
}

} // namespace mailgrad
