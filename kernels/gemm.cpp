#include <mailgrad/kernels/cuda/products.hpp>
#include <mailgrad/kernels/cuda/runtime.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/kernels/gemm.hpp>
#include <mailgrad/kernels/gpu_body.hpp>
#include <mailgrad/kernels/host/gemm_tile.hpp>
#include <mailgrad/tensor/error.hpp>

namespace mailgrad {
namespace {

// Products with so few rows or columns that most of a register tile would be zeros.

/// The product of one row with a matrix, as the prediction of one sample needs it. Each number of B is read
/// once, so the rate is that of memory: rows of B are read whole, as they lie, and those that meet a zero of
/// A are not read at all. Behind relu, and in most pictures, these are half of them or more. What such a row
/// holds does not matter then, not even if it is infinite.
class row_product {
public:
  static bool suits(const gemm_shape& g) {
    return g.m == 1 && g.b == operand_order::as_is && g.n > 1 && g.k <= UINT32_MAX;
  }

  static std::size_t scratch_bytes(const gemm_shape& g) { return g.k * sizeof(std::uint32_t); }

  row_product(const gemm_shape& g, const float* a, const float* b, float* c, void* scratch)
      : n_(g.n), k_(g.k), a_(a), b_(b), c_(c), used_(static_cast<std::uint32_t*>(scratch)) {}

  void run() const {
    const std::size_t count = list_used();
    std::fill_n(c_, n_, 0.0F);
    std::size_t i = 0;
    for (; i + at_once <= count; i += at_once) add_rows<at_once>(used_ + i);
    for (; i < count; ++i) add_rows<1>(used_ + i);
  }

private:
  /// Rows of B that are added to C in one pass over it. With 4 or 16 it is slower by a tenth.
  static constexpr std::size_t at_once = 8;

  /// Lists the rows of B that meet no zero, and returns their number. There is no branch to mispredict.
  std::size_t list_used() const {
    std::size_t count = 0;
    for (std::size_t p = 0; p < k_; ++p) {
      used_[count] = static_cast<std::uint32_t>(p);
      count += a_[p] != 0 ? 1 : 0;
    }
    return count;
  }

  template <std::size_t Rows>
  void add_rows(const std::uint32_t* which) const {
    const float* rows[Rows];
    float by[Rows];
    for (std::size_t r = 0; r < Rows; ++r) {
      rows[r] = b_ + std::size_t{which[r]} * n_;
      by[r] = a_[which[r]];
    }
    std::size_t column = 0;
    for (; column + simd::width <= n_; column += simd::width) {
      simd::vector sum = simd::load(c_ + column);
      for (std::size_t r = 0; r < Rows; ++r) sum += simd::load(rows[r] + column) * by[r];
      simd::store(c_ + column, sum);
    }
    for (; column < n_; ++column)
      for (std::size_t r = 0; r < Rows; ++r) c_[column] += rows[r][column] * by[r];
  }

  std::size_t n_, k_;
  const float* a_;
  const float* b_;
  float* c_;
  std::uint32_t* used_; ///< rows of B, at most k
};

/// One product with few columns, computed as dot products of rows of A with rows of the transpose of B.
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
  /// Computes some columns of C for all rows. Five columns of B leave room for rows of A in the L1 cache.
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

inline std::size_t row_length(const gemm_shape& g) { return g.a == operand_order::as_is ? g.k : g.m; }

/// One product with one column. The rows of A are so short that there is a compiled loop for each length.
class short_row_product {
public:
  static bool suits(const gemm_shape& g) { return g.n == 1 && row_length(g) <= longest; }

  static void run(const gemm_shape& g, const float* a, const float* b, float* c) {
    run(g, a, b, c, std::make_index_sequence<longest>{});
  }

private:
  static constexpr std::size_t longest = 2 * simd::width - 1;

  template <std::size_t... Less>
  static void run(const gemm_shape& g, const float* a, const float* b, float* c,
                  std::index_sequence<Less...>) {
    constexpr std::array functions{multiply<Less + 1>...};
    functions[row_length(g) - 1](g, a, b, c);
  }

  template <std::size_t Length>
  static void multiply(const gemm_shape& g, const float* a, const float* b, float* c) {
    if (g.a == operand_order::as_is)
      multiply_rows<Length>(g.m, a, b, c);
    else
      add_rows<Length>(g.k, a, b, c);
  }

  template <std::size_t Length>
  static void multiply_rows(std::size_t rows, const float* a, const float* b, float* c) {
    for (std::size_t row = 0; row < rows; ++row, a += Length) {
      float sum = 0;
      for (std::size_t p = 0; p < Length; ++p) sum += a[p] * b[p];
      c[row] = sum;
    }
  }

  /// Multiplies the transpose of A with b: adds up the rows of A, each times a number of b. There are two
  /// sums, since each addition to one sum waits for the last.
  template <std::size_t Length>
  static void add_rows(std::size_t rows, const float* a, const float* b, float* c) {
    float sums[2][Length] = {};
    std::size_t row = 0;
    for (; row + 2 <= rows; row += 2, a += 2 * Length)
      for (std::size_t half = 0; half < 2; ++half)
        for (std::size_t i = 0; i < Length; ++i) sums[half][i] += a[half * Length + i] * b[row + half];
    for (std::size_t i = 0; i < Length; ++i)
      c[i] = sums[0][i] + sums[1][i] + (row < rows ? a[i] * b[row] : 0);
  }
};

/// The most rows of B that are read at a time. With the columns of one tile they leave some room in the L1
/// cache.
constexpr std::size_t max_depth = 400;

/// The most floats of B that are copied at once, but at least one panel. They fill half of a 512 KiB L2
/// cache, and stay there while the rows of A are read.
constexpr std::size_t right_floats = 65536;

/// A C of at least so many floats is written past the caches if it is read later. It would evict half of a
/// 512 KiB L2 cache.
constexpr std::size_t least_past_caches = 65536;

/// Blocks have about equal depth, because a shallow last block would spend most time on loading and storing
/// C.
std::size_t depth_of_blocks(std::size_t k) {
  if (k == 0) return 1;
  const std::size_t blocks = (k + max_depth - 1) / max_depth;
  return (k + blocks - 1) / blocks;
}

/// With fewer columns than this, vectors along a row of C would be mostly empty.
constexpr std::size_t narrow = 3 * simd::width / 2;

enum class method : std::uint8_t { panels, dots, transposed_panels, short_rows, one_row };

method choose(const gemm_shape& g) {
  if (short_row_product::suits(g)) return method::short_rows;
  if (row_product::suits(g)) return method::one_row;
  if (g.n >= narrow || g.m <= g.n) return method::panels;
  if (g.a == operand_order::transposed) return method::transposed_panels;
  return g.k >= 2 * simd::width ? method::dots : method::panels;
}

/// The shape of C^T = B^T A^T.
gemm_shape mirrored(const gemm_shape& g) {
  const auto other = [](operand_order o) {
    return o == operand_order::as_is ? operand_order::transposed : operand_order::as_is;
  };
  return {g.n, g.m, g.k, other(g.b), other(g.a), 1};
}

/// Prefetches the rows of A that the next tiles read, a share with each panel of B. All at once would be too
/// many for the processor.
class read_ahead {
public:
  read_ahead(const float* values, std::size_t row_step, std::size_t rows, std::size_t depth,
             std::size_t shares)
      : row_(values), row_step_(row_step), depth_(depth),
        share_((rows * lines_of_row() + shares - 1) / shares), left_(rows * lines_of_row()) {}

  void ask_for_share() {
    for (std::size_t i = std::min(share_, left_); i > 0; --i, --left_) {
      simd::prefetch(row_ + column_);
      column_ += simd::cache_line;
      if (column_ < depth_) continue;
      column_ = 0;
      row_ += row_step_;
    }
  }

private:
  std::size_t lines_of_row() const { return (depth_ + simd::cache_line - 1) / simd::cache_line; }

  const float* row_;
  std::size_t row_step_, depth_;
  std::size_t share_, left_; ///< cache lines
  std::size_t column_ = 0;
};

/// One product, with B in panels as wide as a register tile. The first tile that reads a panel of B, or rows
/// of a transposed A, writes a copy without gaps for the tiles that follow.
class panel_product {
public:
  panel_product(const gemm_shape& g, const float* a, const float* b, float* c, float* scratch,
                next_use c_use = next_use::soon)
      : g_(g), a_(a), b_(b), c_(c), panels_(scratch), whole_tile_(panels_ + panel_floats(g)),
        rows_(whole_tile_ + tile::rows * tile::columns),
        first_(c_use == next_use::later && suits_past_caches() ? tile::into::past_caches
                                                               : tile::into::overwrite) {}

  static std::size_t scratch_floats(const gemm_shape& g) {
    return panel_floats(g) + tile::rows * tile::columns + depth_of_blocks(g.k) * tile::rows;
  }

  void run() const {
    const std::size_t block = depth_of_blocks(g_.k);
    for (std::size_t first = 0; first < g_.k; first += block)
      for (std::size_t column = 0; column < g_.n; column += columns_at_once_)
        fill({first, std::min(g_.k, first + block)}, {column, std::min(g_.n, column + columns_at_once_)});
    if (first_ == tile::into::past_caches) simd::fence_stores();
  }

private:
  /// The width of the panels that are copied at once: at least one panel, at most all of them.
  static std::size_t columns_at_once(const gemm_shape& g) {
    const std::size_t all = (g.n + tile::columns - 1) / tile::columns;
    const std::size_t panels = right_floats / (depth_of_blocks(g.k) * tile::columns);
    return std::max<std::size_t>(std::min(all, panels), 1) * tile::columns;
  }
  static std::size_t panel_floats(const gemm_shape& g) { return depth_of_blocks(g.k) * columns_at_once(g); }

  /// Whether C may be written past the caches: it is large, its rows lie on cache lines, tiles fill whole
  /// lines, and each element is written once.
  bool suits_past_caches() const {
    return simd::passes_caches && tile::columns % simd::cache_line == 0 && g_.m * g_.n >= least_past_caches &&
           depth_of_blocks(g_.k) >= g_.k && g_.n % simd::cache_line == 0 &&
           reinterpret_cast<std::uintptr_t>(c_) % (simd::cache_line * sizeof(float)) == 0;
  }

  /// Whether so few rows of A read B that copying it does not pay.
  bool reads_in_place() const {
    return g_.b == operand_order::as_is && g_.m <= 2 * tile::rows && g_.n % tile::columns == 0;
  }

  void fill(tile::range depth, tile::range columns) const {
    if (g_.b == operand_order::transposed) turn(depth, columns);
    tile::for_each_height(0, g_.m, [&](std::size_t first, std::size_t last) {
      fill_rows({first, last}, depth, columns);
    });
  }

  void fill_rows(tile::range rows, tile::range depth, tile::range columns) const {
    const strip s{rows, depth, columns};
    if (g_.a == operand_order::as_is)
      return fill_tiles(tile::left_part{a_ + rows.first * g_.k + depth.first, g_.k, 1}, s, columns);
    const std::size_t second = std::min(columns.first + tile::columns, columns.last);
    const float* const values = a_ + depth.first * g_.m + rows.first;
    fill_tiles(tile::copied_left_part{values, g_.m, rows_}, s, {columns.first, second});
    fill_tiles(tile::left_part{rows_, 1, rows.size()}, s, {second, columns.last});
  }

  /// What the tiles of one strip of rows share. `columns` are those of B that are copied at this depth.
  struct strip {
    tile::range rows, depth, columns;
  };
  read_ahead next_rows(const strip& s) const {
    const std::size_t next = g_.a == operand_order::as_is ? std::min(tile::rows, g_.m - s.rows.last) : 0;
    return {a_ + s.rows.last * g_.k + s.depth.first, g_.k, next, s.depth.size(),
            (s.columns.size() + tile::columns - 1) / tile::columns};
  }

  template <class Left>
  void fill_tiles(const Left& left, const strip& s, tile::range columns) const {
    const bool first_of_right = s.rows.first == 0 && g_.b == operand_order::as_is;
    read_ahead next = next_rows(s);
    for (std::size_t column = columns.first; column < columns.last; column += tile::columns) {
      next.ask_for_share();
      const std::size_t count = std::min(tile::columns, columns.last - column);
      const float* const values = b_ + s.depth.first * g_.n + column;
      float* const panel = panels_ + (column - s.columns.first) * s.depth.size();
      if (reads_in_place()) {
        fill_tile(left, tile::right_part{values, g_.n}, s, column, count);
      } else if (first_of_right && count == tile::columns) {
        fill_tile(left, tile::copied_right_part{values, g_.n, panel}, s, column, count);
      } else {
        if (first_of_right) copy_part(values, count, s.depth.size(), panel);
        fill_tile(left, tile::right_part{panel, tile::columns}, s, column, count);
      }
    }
  }

  template <class Left, class Right>
  void fill_tile(const Left& left, const Right& right, const strip& s, std::size_t column,
                 std::size_t count) const {
    tile::multiply_part(left, right, s.depth.size(),
                        {c_ + s.rows.first * g_.n + column, g_.n, s.rows.size(), count},
                        s.depth.first == 0 ? first_ : tile::into::add, whole_tile_);
  }

  /// Packs a transposed B into panels. The last panel is filled up with zeros.
  void turn(tile::range depth, tile::range columns) const {
    for (std::size_t column = columns.first; column < columns.last; column += tile::columns) {
      float* const panel = panels_ + (column - columns.first) * depth.size();
      const std::size_t count = std::min(tile::columns, columns.last - column);
      if (count < tile::columns) std::fill_n(panel, depth.size() * tile::columns, 0.0F);
      transpose(b_ + column * g_.k + depth.first, g_.k, panel, tile::columns, count, depth.size());
    }
  }

  /// Copies a panel of fewer columns than a tile has, and fills it up with zeros.
  void copy_part(const float* values, std::size_t count, std::size_t depth, float* panel) const {
    for (std::size_t p = 0; p < depth; ++p, values += g_.n, panel += tile::columns)
      std::fill(std::copy_n(values, count, panel), panel + tile::columns, 0.0F);
  }

  gemm_shape g_;
  const float* a_;
  const float* b_;
  float* c_;
  float* panels_;
  float* whole_tile_;
  float* rows_;      ///< the rows of A of one tile
  tile::into first_; ///< how C is written at the first depth
  std::size_t columns_at_once_ = columns_at_once(g_);
};

void multiply_one(const gemm_shape& g, const float* a, const float* b, float* c, float* scratch,
                  next_use c_use) {
  switch (choose(g)) {
  case method::panels:
    return panel_product(g, a, b, c, scratch, c_use).run();
  case method::dots:
    return dot_product(g, a, b, c, scratch).run();
  case method::transposed_panels: {
    float* const turned = scratch + panel_product::scratch_floats(mirrored(g));
    panel_product(mirrored(g), b, a, turned, scratch).run();
    transpose(turned, g.m, c, g.n, g.n, g.m);
    return;
  }
  case method::short_rows:
    return short_row_product::run(g, a, b, c);
  case method::one_row:
    return row_product(g, a, b, c, scratch).run();
  }
}

void multiply(const gemm_shape& g, const float* a, const float* b, float* c, void* scratch, next_use c_use) {
  if (g.k == 0) std::fill_n(c, g.batch * g.m * g.n, 0.0F);
  if (g.k == 0 || g.m == 0 || g.n == 0) return;
  for (std::size_t i = 0; i < g.batch; ++i)
    multiply_one(g, a + i * g.m * g.k, b + i * g.k * g.n, c + i * g.m * g.n, static_cast<float*>(scratch),
                 c_use);
}

/// Adds the bias to each row of C and applies relu, as `epilogue` has them.
void finish_rows(const stream& s, const gemm_shape& g, float* c, const gemm_epilogue& epilogue) {
  using enum elementwise_function;
  const shape rows{g.batch * g.m, g.n};
  if (epilogue.bias == nullptr) return broadcast(s, relu, plan_broadcast(rows, rows, rows), c, c, c);
  broadcast(s, epilogue.relu ? relu_of_sum : add, plan_broadcast(rows, {g.n}, rows), c, epilogue.bias, c);
}

/// What multiplies on a GPU. Only a build without CUDA has none.
cuda::products& products_of(const cuda_stream& s) {
  if (s.products == nullptr) refuse_gpu(s, "gemm");
  return *s.products;
}

template <class Operand>
void multiply_on_gpu(const cuda_stream& s, const gemm_shape& g, const Operand* a, const Operand* b, float* c,
                     const gemm_epilogue& epilogue) {
  cuda::products& products = products_of(s);
  const std::size_t size = g.batch * g.m * g.n;
  if (size == 0) return;
  if (g.k == 0)
    cuda::runtime::fill(s.stream, c, 0, size * sizeof(float));
  else if (!epilogue.relu)
    return products.run(s, g, a, b, c, epilogue.bias);
  else
    products.run(s, g, a, b, c);
  if (!epilogue.none()) finish_rows(s, g, c, epilogue);
}

float dot(const float* a, const float* b, std::size_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(float factor, const float* x, float* sum, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) sum[i] += factor * x[i];
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
  case method::short_rows:
    return 0;
  case method::one_row:
    return row_product::scratch_bytes(g);
  }
  return 0;
}

void gemm(const stream& s, const gemm_shape& g, const float* a, const float* b, float* c, void* scratch,
          next_use c_use, const gemm_epilogue& epilogue) {
  if (const auto* gpu = std::get_if<cuda_stream>(&s)) return multiply_on_gpu(*gpu, g, a, b, c, epilogue);
  multiply(g, a, b, c, scratch, epilogue.none() ? c_use : next_use::soon);
  if (!epilogue.none()) finish_rows(s, g, c, epilogue);
}

void gemm(const stream& s, const gemm_shape& g, const bfloat16* a, const bfloat16* b, float* c,
          const gemm_epilogue& epilogue) {
  multiply_on_gpu(require_gpu(s, "gemm"), g, a, b, c, epilogue);
}

void gemm(const stream& s, const gemm_shape& g, const bfloat16* a, const bfloat16* b, bfloat16* c,
          const bfloat16* bias) {
  const cuda_stream& gpu = require_gpu(s, "gemm");
  if (g.k == 0) throw shape_error("gemm: a product of no inner elements is not computed in bfloat16");
  products_of(gpu).run(gpu, g, a, b, c, bias); // which answers a result of nothing
}

void pairwise_dots(const stream& s, const vector_sets& sets, const float* x, float* dots) {
  if (on_gpu<pairwise_dots>(s, sets, x, dots)) return;
  const std::size_t n = sets.width;
  for (std::size_t sample = 0; sample < sets.samples; ++sample, x += sets.count * n)
    for (std::size_t i = 1; i < sets.count; ++i)
      for (std::size_t j = 0; j < i; ++j) *dots++ = dot(x + i * n, x + j * n, n);
}

void pairwise_dots_gradient(const stream& s, const vector_sets& sets, const float* x, const float* ddots,
                            float* dx) {
  if (on_gpu<pairwise_dots_gradient>(s, sets, x, ddots, dx)) return;
  const std::size_t n = sets.width;
  std::fill_n(dx, sets.samples * sets.count * n, 0.0F);
  for (std::size_t sample = 0; sample < sets.samples; ++sample, x += sets.count * n, dx += sets.count * n)
    for (std::size_t i = 1; i < sets.count; ++i)
      for (std::size_t j = 0; j < i; ++j, ++ddots) {
        add_scaled(*ddots, x + j * n, dx + i * n, n);
        add_scaled(*ddots, x + i * n, dx + j * n, n);
      }
}

} // namespace mailgrad
