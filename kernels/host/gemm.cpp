#include <mailgrad/kernels/gemm.hpp>

#include <mailgrad/kernels/cuda/gemm.hpp>
#include <mailgrad/kernels/host/gemm_tile.hpp>
#include <mailgrad/kernels/host/transpose.hpp>

#include <algorithm>
#include <array>

namespace mailgrad {

namespace {

/// Most rows of B that are packed at a time: with `columns` floats each they leave the L1 cache some room.
constexpr std::size_t max_depth = 400;

/// Floats of B that are packed at once, if more than one panel is that small: they stay in the L2 cache while
/// the rows of A pass by, and C is written in longer pieces.
constexpr std::size_t right_floats = 24576;

/// Floats of A that all panels are multiplied with before the next: half of a 512 KiB L2 cache.
constexpr std::size_t left_floats = 65536;

/// Blocks of about equal depth: a shallow one at the end would spend its time on loading and storing C.
std::size_t depth_of_blocks(std::size_t k) {
  if (k == 0) return 1;
  const std::size_t blocks = (k + max_depth - 1) / max_depth;
  return (k + blocks - 1) / blocks;
}

/// Fewer columns of C than this are too few to be walked in vectors.
constexpr std::size_t narrow = 3 * simd::width / 2;

enum class method : std::uint8_t { panels, dots, transposed_panels, one_column };

method choose(const gemm_shape& g) {
  const std::size_t inner = g.a == operand_order::as_is ? g.k : g.m;
  if (g.n == 1 && inner < 2 * simd::width) return method::one_column;
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

struct range {
  std::size_t first, last;
  std::size_t size() const { return last - first; }
};

/// One product, B packed in panels of as many columns as a register tile has.
class panel_product {
public:
  panel_product(const gemm_shape& g, const float* a, const float* b, float* c, float* scratch)
      : g_(g), a_(a), b_(b), c_(c), panels_(scratch), whole_tile_(scratch + panel_floats(g)) {}

  static std::size_t scratch_floats(const gemm_shape& g) {
    return panel_floats(g) + tile::rows * tile::columns;
  }

  void run() const {
    const std::size_t block = depth_of_blocks(g_.k);
    const std::size_t block_rows = std::max(left_floats / block / tile::rows, std::size_t{1}) * tile::rows;
    for (std::size_t first = 0; first < g_.k; first += block)
      for (std::size_t row = 0; row < g_.m; row += block_rows)
        for (std::size_t column = 0; column < g_.n; column += packed_columns_)
          fill({row, std::min(g_.m, row + block_rows)}, {first, std::min(g_.k, first + block)},
               {column, std::min(g_.n, column + packed_columns_)});
  }

private:
  /// Of whole panels, at least one and no more than there are.
  static std::size_t packed_columns(const gemm_shape& g) {
    const std::size_t all = (g.n + tile::columns - 1) / tile::columns;
    const std::size_t panels = right_floats / (depth_of_blocks(g.k) * tile::columns);
    return std::max<std::size_t>(std::min(all, panels), 1) * tile::columns;
  }
  static std::size_t panel_floats(const gemm_shape& g) { return depth_of_blocks(g.k) * packed_columns(g); }

  /// So few rows read B that packing it is not worth it.
  bool reads_in_place() const {
    return g_.b == operand_order::as_is && g_.m <= 2 * tile::rows && g_.n % tile::columns == 0;
  }

  void fill(range rows, range depth, range columns) const {
    if (!reads_in_place()) pack(depth, columns);
    tile::for_each_height(rows.first, rows.last, [&](std::size_t first, std::size_t last) {
      for (std::size_t column = columns.first; column < columns.last; column += tile::columns)
        fill_tile({first, last}, depth, {column, std::min(columns.last, column + tile::columns)},
                  right_part(depth, columns, column));
    });
  }

  void fill_tile(range rows, range depth, range columns, const tile::right_part& right) const {
    tile::multiply_part(left_part(rows.first, depth.first), right, depth.size(),
                        {c_ + rows.first * g_.n + columns.first, g_.n, rows.size(), columns.size()},
                        depth.first == 0 ? tile::into::overwrite : tile::into::add, whole_tile_);
  }

  tile::left_part left_part(std::size_t row, std::size_t first) const {
    if (g_.a == operand_order::as_is) return {a_ + row * g_.k + first, g_.k, 1};
    return {a_ + first * g_.m + row, 1, g_.m};
  }

  tile::right_part right_part(range depth, range packed, std::size_t column) const {
    if (reads_in_place()) return {b_ + depth.first * g_.n + column, g_.n};
    return {panels_ + (column - packed.first) * depth.size(), tile::columns};
  }

  /// Copies a part of B into panels, one after the other, each row of a panel `tile::columns` wide; zeros
  /// fill the last. Several panels at once, as B is then read in longer pieces.
  void pack(range depth, range columns) const {
    for (std::size_t column = columns.first; column < columns.last; column += tile::columns) {
      float* const panel = panels_ + (column - columns.first) * depth.size();
      const std::size_t count = std::min(tile::columns, columns.last - column);
      if (count < tile::columns) std::fill_n(panel, depth.size() * tile::columns, 0.0F);
      if (g_.b == operand_order::transposed)
        transpose(b_ + column * g_.k + depth.first, g_.k, panel, tile::columns, count, depth.size());
    }
    if (g_.b == operand_order::transposed) return;
    for (std::size_t p = 0; p < depth.size(); ++p)
      pack_row(b_ + (depth.first + p) * g_.n, columns, panels_ + p * tile::columns,
               depth.size() * tile::columns);
  }

  static void pack_row(const float* row, range columns, float* to, std::size_t panel_step) {
    std::size_t column = columns.first;
    for (; column + tile::columns <= columns.last; column += tile::columns, to += panel_step)
      for (std::size_t i = 0; i < tile::columns; i += simd::width)
        simd::store(to + i, simd::load(row + column + i));
    for (std::size_t i = 0; column + i < columns.last; ++i) to[i] = row[column + i];
  }

  gemm_shape g_;
  const float* a_;
  const float* b_;
  float* c_;
  float* panels_;
  float* whole_tile_;
  std::size_t packed_columns_ = packed_columns(g_);
};

/// One product with few columns, each a row of the transpose of B.
class dot_product {
public:
  dot_product(const gemm_shape& g, const float* a, const float* b, float* c, float* turned)
      : g_(g), a_(a), b_(b), c_(c), turned_(turned) {}

  static std::size_t scratch_floats(const gemm_shape& g) { return g.n * g.k; }

  void run() const {
    if (g_.b == operand_order::as_is) transpose(b_, g_.n, turned_, g_.k, g_.k, g_.n);
    const float* const columns = g_.b == operand_order::as_is ? turned_ : b_;
    std::size_t column = 0;
    for (; column + 5 <= g_.n; column += 5) fill_columns<5>(columns, column);
    for (; column + 2 <= g_.n; column += 2) fill_columns<2>(columns, column);
    if (column < g_.n) fill_columns<1>(columns, column);
  }

private:
  /// Down the rows: five columns of B leave the L1 cache room for rows of A.
  template <std::size_t Columns>
  void fill_columns(const float* columns, std::size_t column) const {
    const float* const right = columns + column * g_.k;
    std::size_t row = 0;
    for (; row + 2 <= g_.m; row += 2)
      tile::dot<2, Columns>(a_ + row * g_.k, g_.k, right, g_.k, g_.k, c_ + row * g_.n + column, g_.n);
    if (row < g_.m)
      tile::dot<1, Columns>(a_ + row * g_.k, g_.k, right, g_.k, g_.k, c_ + row * g_.n + column, g_.n);
  }

  gemm_shape g_;
  const float* a_;
  const float* b_;
  float* c_;
  float* turned_;
};

/// A matrix of short rows, as it lies in memory, times a column, or its transpose times one: too little for a register
/// tile, most of which would be zeros.
void multiply_column(const gemm_shape& g, const float* a, const float* b, float* c) {
  if (g.a == operand_order::as_is) {
    for (std::size_t row = 0; row < g.m; ++row) {
      float sum = 0;
      for (std::size_t p = 0; p < g.k; ++p) sum += a[row * g.k + p] * b[p];
      c[row] = sum;
    }
    return;
  }
  std::array<float, 2 * simd::width> sums{};
  for (std::size_t p = 0; p < g.k; ++p)
    for (std::size_t row = 0; row < g.m; ++row) sums[row] += a[p * g.m + row] * b[p];
  std::copy_n(sums.begin(), g.m, c);
}

void multiply_one(const gemm_shape& g, const float* a, const float* b, float* c, float* scratch) {
  switch (choose(g)) {
  case method::panels:
    return panel_product(g, a, b, c, scratch).run();
  case method::dots:
    return dot_product(g, a, b, c, scratch).run();
  case method::transposed_panels: {
    float* const turned = scratch + panel_product::scratch_floats(mirrored(g));
    panel_product(mirrored(g), b, a, turned, scratch).run();
    transpose(turned, g.m, c, g.n, g.n, g.m);
    return;
  }
  case method::one_column:
    return multiply_column(g, a, b, c);
  }
}

} // namespace

std::size_t gemm_scratch_bytes(const gemm_shape& g) noexcept {
  switch (choose(g)) {
  case method::panels:
    return panel_product::scratch_floats(g) * sizeof(float);
  case method::dots:
    return dot_product::scratch_floats(g) * sizeof(float);
  case method::transposed_panels:
    return (panel_product::scratch_floats(mirrored(g)) + g.m * g.n) * sizeof(float);
  case method::one_column:
    return 0;
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
