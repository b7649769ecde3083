#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/cuda/indices.hpp>
#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/reduce.hpp>

#include <limits>

namespace mailgrad::cuda {
namespace {

constexpr std::uint64_t largest_index = std::numeric_limits<std::int32_t>::max();

/// The product of a few extents, each of which is below 2^31.
std::uint32_t checked(const char* what, std::initializer_list<std::size_t> extents) {
  std::uint64_t n = 1;
  for (const std::size_t extent : extents) {
    if (extent > largest_index || n * extent > largest_index)
      throw shape_error(std::string("convolution: a GPU takes fewer than 2^31 ") + what);
    n *= extent;
  }
  return static_cast<std::uint32_t>(n);
}

// How a block reads an operand of a matrix product that may not be a matrix in memory.
//
// A source is an operand. Its lines are the rows of the left operand, or the columns of the right one; its
// places are the positions along the depth of the product.
//
//     struct source {
//       static constexpr pack_axis axis; // along which four neighbours lie side by side in memory
//       bool packs;                      // whether four neighbours may be loaded at once
//       line line_at(std::uint32_t) const;   // also behind the last, where it has no values
//       place place_at(std::uint32_t) const; // likewise
//       const float* find(const line&, const place&) const; // null where the operand is 0
//     };

enum class pack_axis : std::uint8_t { lines, depth };

/// Copies one operand's part of a tile to shared memory, where it lies by position and then by line. fetch()
/// loads it to registers, so that the loads are under way while the tile before it is multiplied.
template <class Source, unsigned lines, unsigned depth, unsigned threads>
class tile_reader {
  static constexpr bool is_deep = Source::axis == pack_axis::depth;
  static constexpr unsigned packs_across = (is_deep ? depth : lines) / 4;
  static constexpr unsigned others = is_deep ? lines : depth;
  static constexpr unsigned other_step = threads / packs_across;
  static constexpr unsigned packs = (others + other_step - 1) / other_step;
  static constexpr unsigned step = lines + 4;
  static_assert(threads % packs_across == 0);

public:
  __device__ tile_reader(const Source& source, std::uint32_t first_line)
      : packed_(threadIdx.x % packs_across * 4), other_(threadIdx.x / packs_across) {
#pragma unroll
    for (unsigned i = 0; i < kept_lines; ++i)
      lines_[i] = source.line_at(first_line + (is_deep ? other_ + i * other_step : packed_ + i));
  }

  __device__ void fetch(const Source& source, std::uint32_t k) {
    if (is_behind(0)) return;
    if (source.packs)
      fetch_packs(source, k);
    else
      fetch_floats(source, k);
  }

  __device__ void store(float* workspace) const {
#pragma unroll
    for (unsigned i = 0; i < packs; ++i) {
      if (is_behind(i)) continue;
      const unsigned other = other_ + i * other_step;
      if constexpr (is_deep) {
#pragma unroll
        for (unsigned j = 0; j < 4; ++j) workspace[(packed_ + j) * step + other] = values_[i].v[j];
      } else {
        *reinterpret_cast<float_pack*>(workspace + other * step + packed_) = values_[i];
      }
    }
  }

private:
  static constexpr unsigned kept_lines = is_deep ? packs : 4;

  /// Whether a tile is too small to have an i-th pack for this thread.
  __device__ bool is_behind(unsigned i) const {
    return others % other_step != 0 && other_ + i * other_step >= others;
  }

  __device__ static float value_at(const float* at) { return at == nullptr ? 0.0F : *at; }
  __device__ static float_pack pack_at(const float* at) {
    return at == nullptr ? float_pack{} : plain_pack(at);
  }

  __device__ void fetch_packs(const Source& source, std::uint32_t k) {
    if constexpr (is_deep) {
      const auto place = source.place_at(k + packed_);
#pragma unroll
      for (unsigned i = 0; i < packs; ++i) values_[i] = pack_at(source.find(lines_[i], place));
    } else {
#pragma unroll
      for (unsigned i = 0; i < packs; ++i)
        values_[i] = pack_at(source.find(lines_[0], source.place_at(k + other_ + i * other_step)));
    }
  }

  __device__ void fetch_floats(const Source& source, std::uint32_t k) {
    if constexpr (is_deep) {
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        const auto place = source.place_at(k + packed_ + j);
#pragma unroll
        for (unsigned i = 0; i < packs; ++i) values_[i].v[j] = value_at(source.find(lines_[i], place));
      }
    } else {
#pragma unroll
      for (unsigned i = 0; i < packs; ++i) {
        const auto place = source.place_at(k + other_ + i * other_step);
#pragma unroll
        for (unsigned j = 0; j < 4; ++j) values_[i].v[j] = value_at(source.find(lines_[j], place));
      }
    }
  }

  unsigned packed_, other_;
  typename Source::line lines_[kept_lines];
  float_pack values_[packs];
};

// A matrix product whose operands are no matrices in memory, but are found element by element, by sources as
// described above.

/// The part of a result that one block computes, `depth` positions at a time. Each thread computes
/// `thread_rows` x `thread_columns` of its elements.
template <unsigned Rows, unsigned Columns, unsigned Depth, unsigned ThreadRows, unsigned ThreadColumns>
struct product_tile {
  static constexpr unsigned rows = Rows, columns = Columns, depth = Depth;
  static constexpr unsigned thread_rows = ThreadRows, thread_columns = ThreadColumns;
  static constexpr unsigned threads_across = columns / thread_columns;
  static constexpr unsigned threads = rows / thread_rows * threads_across;
  static_assert(thread_rows % 4 == 0 && thread_columns % 4 == 0 && threads % warp_size == 0);

  /// Four floats of padding spread the lines of a tile over the banks of shared memory.
  static constexpr unsigned row_step = rows + 4, column_step = columns + 4;
  static constexpr unsigned buffer = depth * (row_step + column_step);
  static constexpr std::size_t shared_bytes = 2 * buffer * sizeof(float);
};

/// Where the sums go, and over which depth each block sums.
struct product_result {
  float* values; ///< [splits, rows, columns]
  std::uint32_t rows, columns, depth;
  std::uint32_t depth_of_split; ///< a multiple of the tile's depth
  bool packs;                   ///< whether four columns may be stored at once
};

/// The elements of a tile that a thread computes: packs of four rows, and of four columns, which lie apart so
/// that the threads of a warp read neighbouring packs.
template <class Tile>
struct thread_place {
  static constexpr unsigned lanes_across = Tile::threads_across < 8 ? Tile::threads_across : 8;
  static constexpr unsigned warps_across = Tile::threads_across / lanes_across;
  static constexpr unsigned row_packs = Tile::thread_rows / 4, column_packs = Tile::thread_columns / 4;
  __device__ thread_place() {
    const unsigned warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
    row_ = (warp / warps_across * (warp_size / lanes_across) + lane / lanes_across) * 4;
    column_ = (warp % warps_across * lanes_across + lane % lanes_across) * 4;
  }
  __device__ unsigned row(unsigned pack) const { return row_ + pack * (Tile::rows / row_packs); }
  __device__ unsigned column(unsigned pack) const { return column_ + pack * (Tile::columns / column_packs); }

private:
  unsigned row_, column_;
};

template <class Tile>
struct tile_sums {
  using place = thread_place<Tile>;

  __device__ void add(const float* workspace, const place& at) {
    const float* const right = workspace + Tile::depth * Tile::row_step;
#pragma unroll
    for (unsigned k = 0; k < Tile::depth; ++k) {
      float_pack a[place::row_packs], b[place::column_packs];
#pragma unroll
      for (unsigned i = 0; i < place::row_packs; ++i)
        a[i] = plain_pack(workspace + k * Tile::row_step + at.row(i));
#pragma unroll
      for (unsigned j = 0; j < place::column_packs; ++j)
        b[j] = plain_pack(right + k * Tile::column_step + at.column(j));
#pragma unroll
      for (unsigned i = 0; i < Tile::thread_rows; ++i)
#pragma unroll
        for (unsigned j = 0; j < Tile::thread_columns; ++j)
          values[i][j / 4].v[j % 4] += a[i / 4].v[i % 4] * b[j / 4].v[j % 4];
    }
  }

  __device__ void write(const product_result& to, const place& at) const {
#pragma unroll
    for (unsigned i = 0; i < Tile::thread_rows; ++i) {
      const std::uint32_t row = blockIdx.x * Tile::rows + at.row(i / 4) + i % 4;
      if (row >= to.rows) continue;
      float* const line = to.values + (std::size_t{blockIdx.z} * to.rows + row) * to.columns;
#pragma unroll
      for (unsigned j = 0; j < place::column_packs; ++j) {
        const std::uint32_t column = blockIdx.y * Tile::columns + at.column(j);
        if (to.packs) {
          if (column < to.columns) *reinterpret_cast<float_pack*>(line + column) = values[i][j];
          continue;
        }
#pragma unroll
        for (unsigned n = 0; n < 4; ++n)
          if (column + n < to.columns) line[column + n] = values[i][j].v[n];
      }
    }
  }

  float_pack values[Tile::thread_rows][place::column_packs];
};

/// Block (x, y, z) computes tile (x, y) over part z of the depth. Shared memory holds two tiles of the
/// operands: one is written while the other is read.
template <class Left, class Right, class Tile>
__global__ void __launch_bounds__(Tile::threads)
    implicit_product_kernel(Left left, Right right, product_result result) {
  float* const workspace = shared_memory<float>();
  tile_reader<Left, Tile::rows, Tile::depth, Tile::threads> lefts(left, blockIdx.x * Tile::rows);
  tile_reader<Right, Tile::columns, Tile::depth, Tile::threads> rights(right, blockIdx.y * Tile::columns);
  const thread_place<Tile> at;
  tile_sums<Tile> sums{};

  std::uint32_t k = blockIdx.z * result.depth_of_split;
  const std::uint32_t rest = result.depth - k;
  const std::uint32_t end = k + (rest < result.depth_of_split ? rest : result.depth_of_split);
  lefts.fetch(left, k);
  rights.fetch(right, k);
  for (unsigned buffer = 0; k < end; buffer ^= 1) {
    float* const tile = workspace + buffer * Tile::buffer;
    lefts.store(tile);
    rights.store(tile + Tile::depth * Tile::row_step);
    __syncthreads(); // also behind the last reading of the other tile, which the next turn writes
    k += Tile::depth;
    if (k < end) {
      lefts.fetch(left, k);
      rights.fetch(right, k);
    }
    sums.add(tile, at);
  }
  sums.write(result, at);
}

/// Three blocks of 128 threads lie on each multiprocessor where there is work enough.
constexpr std::size_t busy_tiles = multiprocessors * 3;

/// The number of parts that the depth is cut into, so that small results, too, keep all multiprocessors busy.
/// If the last round of blocks left most of them idle, there are fewer parts and one round less.
std::uint32_t splits_of(std::size_t tiles, std::size_t threads, std::size_t result_size, std::size_t depth,
                        std::size_t scratch_bytes) {
  constexpr std::size_t least_depth = 64;
  if (tiles >= multiprocessors * 3 / 2) return 1;
  const std::size_t wanted = busy_tiles * 128 / threads / tiles;
  const std::size_t fitting = scratch_bytes / sizeof(float) / result_size;
  const std::size_t splits = std::min({wanted, fitting, depth / least_depth});
  const std::size_t last_round = splits * tiles % multiprocessors;
  const bool leaves_idle = splits * tiles > multiprocessors && last_round < multiprocessors * 3 / 4;
  return static_cast<std::uint32_t>(
      std::max<std::size_t>(leaves_idle ? (splits * tiles - last_round) / tiles : splits, 1));
}

constexpr std::uint32_t parts_of(std::uint32_t n, std::uint32_t part) {
  return n / part + (n % part == 0 ? 0 : 1);
}

template <class Tile>
std::size_t tiles_of(const product_result& r) {
  return std::size_t{parts_of(r.rows, Tile::rows)} * parts_of(r.columns, Tile::columns);
}

template <class Tile, class Left, class Right>
void launch_product(const cuda_stream& s, const char* name, const Left& left, const Right& right,
                    product_result result) {
  const std::size_t size = std::size_t{result.rows} * result.columns;
  float* const values = result.values;
  std::uint32_t splits =
      splits_of(tiles_of<Tile>(result), Tile::threads, size, result.depth, s.scratch_bytes);
  result.depth_of_split = parts_of(parts_of(result.depth, splits), Tile::depth) * Tile::depth;
  splits = parts_of(result.depth, result.depth_of_split);
  if (splits > 1) result.values = static_cast<float*>(s.scratch);
  result.packs = result.columns % 4 == 0 && are_packs(result.values);
  const dim3 grid(parts_of(result.rows, Tile::rows), parts_of(result.columns, Tile::columns), splits);
  launch(s, name, grid, Tile::threads, Tile::shared_bytes, implicit_product_kernel<Left, Right, Tile>, left,
         right, result);
  if (splits > 1) sum_columns(s, name, result.values, splits, size, 1, values);
}

/// Computes `result`, of which `values` is the caller's memory, with tiles that suit its size.
///
/// Shapes  rows, columns and depth are positive.
template <class Left, class Right>
void implicit_product(const cuda_stream& s, const char* name, const Left& left, const Right& right,
                      const product_result& result) {
  using tiny = product_tile<32, 32, 16, 4, 4>;
  using narrow_8 = product_tile<256, 8, 8, 4, 4>;
  using narrow_16 = product_tile<128, 16, 16, 4, 4>;
  using narrow_32 = product_tile<128, 32, 16, 8, 4>;
  using large_32 = product_tile<256, 32, 8, 8, 8>;
  using medium = product_tile<64, 64, 16, 8, 4>;
  using large = product_tile<128, 64, 16, 8, 8>;
  constexpr std::uint32_t deep = 8192; // so that the depth of a few large tiles makes enough blocks
  if (result.rows <= tiny::rows) return launch_product<tiny>(s, name, left, right, result);
  if (result.columns <= 8) return launch_product<narrow_8>(s, name, left, right, result);
  if (result.columns <= 16) return launch_product<narrow_16>(s, name, left, right, result);
  if (result.columns <= 32) {
    if (tiles_of<large_32>(result) >= busy_tiles)
      return launch_product<large_32>(s, name, left, right, result);
    return launch_product<narrow_32>(s, name, left, right, result);
  }
  if (tiles_of<large>(result) >= 2 * multiprocessors || result.depth >= deep)
    return launch_product<large>(s, name, left, right, result);
  launch_product<medium>(s, name, left, right, result);
}

// The operands of a convolution's passes, as sources of an implicit product.

/// A coordinate so far outside that its sum with any other is outside, too.
constexpr std::int32_t far_outside = -(std::int32_t{1} << 30);

__device__ bool is_inside(std::int32_t at, std::uint32_t extent) {
  return static_cast<std::uint32_t>(at) < extent;
}

/// The values of the windows that slide over x. The padding has none.
struct window_values {
  /// A window.
  struct window {
    std::int64_t first; ///< offset in x of the window's first value, which may lie in the padding
    std::int32_t top, left;
  };
  /// A value of each window.
  struct value {
    std::uint32_t offset;
    std::int32_t row, column;
  };
  __device__ window window_at(std::uint32_t k) const {
    if (k >= n.windows) return {0, far_outside, far_outside};
    const std::uint32_t image = n.per_image.divide(k), row = n.per_row.divide(k);
    const auto top = static_cast<std::int32_t>(row * n.stride_rows.by()) - n.pad_top;
    const auto left = static_cast<std::int32_t>(k * n.stride_columns.by()) - n.pad_left;
    const std::int32_t pixel = top * static_cast<std::int32_t>(n.width) + left;
    return {std::int64_t{image} * n.image_values + pixel * static_cast<std::int32_t>(n.channels), top, left};
  }
  __device__ value value_at(std::uint32_t k) const {
    if (k >= n.values) return {0, far_outside, far_outside};
    const std::uint32_t position = n.by_channels.divide(k);
    std::uint32_t column = position;
    const std::uint32_t row = n.columns.divide(column);
    return {(row * n.width + column) * n.channels + k, static_cast<std::int32_t>(row),
            static_cast<std::int32_t>(column)};
  }
  __device__ const float* find(const window& w, const value& v) const {
    const bool inside = is_inside(w.top + v.row, n.height) && is_inside(w.left + v.column, n.width);
    return inside ? x + (w.first + v.offset) : nullptr;
  }

  window_numbers n;
  const float* x;
  bool packs;
};

/// The left operand of y: a line is a window.
struct lines_of_windows : window_values {
  static constexpr pack_axis axis = pack_axis::depth;
  using line = window;
  __device__ window line_at(std::uint32_t k) const { return window_at(k); }
  __device__ value place_at(std::uint32_t k) const { return value_at(k); }
};

/// The left operand of dw: a line is a value of the windows.
struct lines_of_values : window_values {
  static constexpr pack_axis axis = pack_axis::lines;
  using line = value;
  __device__ value line_at(std::uint32_t k) const { return value_at(k); }
  __device__ window place_at(std::uint32_t k) const { return window_at(k); }
  __device__ const float* find(const value& v, const window& w) const { return window_values::find(w, v); }
};

/// The right operand of y and of dw, which does lie in memory: float32[depth, lines].
struct matrix_columns {
  static constexpr pack_axis axis = pack_axis::lines;
  using line = std::uint32_t;
  __device__ std::uint32_t line_at(std::uint32_t column) const { return column; }
  __device__ std::uint32_t place_at(std::uint32_t k) const { return k; }
  __device__ const float* find(std::uint32_t column, std::uint32_t k) const {
    return column < lines && k < depth ? values + (std::size_t{k} * lines + column) : nullptr;
  }

  const float* values;
  std::uint32_t depth, lines;
  bool packs;
};

/// A position of a window and a channel of the result.
struct window_output {
  std::int32_t row, column;
  std::uint32_t channel;
};

__device__ window_output window_output_at(const window_numbers& n, std::uint32_t k) {
  const std::uint32_t position = n.by_outs.divide(k);
  std::uint32_t column = position;
  const std::uint32_t row = n.columns.divide(column);
  return {static_cast<std::int32_t>(row), static_cast<std::int32_t>(column), k};
}

/// The left operand of dx: a line is a pixel, a place is a position of a window and an output channel. It is
/// the gradient of the window that has the pixel at that position.
struct lines_of_pixels {
  static constexpr pack_axis axis = pack_axis::depth;
  struct line {
    std::size_t image; ///< offset in dy
    std::int32_t row, column;
  };
  __device__ line line_at(std::uint32_t k) const {
    if (k >= n.pixels) return {0, far_outside, far_outside};
    const std::uint32_t image = n.by_pixels.divide(k), row = n.by_width.divide(k);
    return {std::size_t{image} * n.result_values, static_cast<std::int32_t>(row) + n.pad_top,
            static_cast<std::int32_t>(k) + n.pad_left};
  }
  __device__ window_output place_at(std::uint32_t k) const {
    if (k >= depth) return {-far_outside, -far_outside, 0};
    return window_output_at(n, k);
  }
  __device__ const float* find(const line& pixel, const window_output& place) const {
    const std::int32_t down = pixel.row - place.row, across = pixel.column - place.column;
    if (down < 0 || across < 0) return nullptr;
    auto gap_down = static_cast<std::uint32_t>(down), gap_across = static_cast<std::uint32_t>(across);
    const std::uint32_t i = n.stride_rows.divide(gap_down), j = n.stride_columns.divide(gap_across);
    if (gap_down != 0 || gap_across != 0 || i >= n.out_height || j >= n.out_width) return nullptr;
    return dy + (pixel.image + (i * n.out_width + j) * n.out_channels + place.channel);
  }

  window_numbers n;
  const float* dy;
  std::uint32_t depth;
  bool packs;
};

/// The right operand of dx: a line is an input channel, a place is as that of lines_of_pixels.
struct columns_of_channels {
  static constexpr pack_axis axis = pack_axis::depth;
  using line = std::uint32_t;
  static constexpr std::uint32_t nowhere = ~std::uint32_t{0};
  __device__ std::uint32_t line_at(std::uint32_t channel) const { return channel; }
  __device__ std::uint32_t place_at(std::uint32_t k) const {
    if (k >= depth) return nowhere;
    const std::uint32_t position = n.by_outs.divide(k);
    return position * n.channels * n.out_channels + k;
  }
  __device__ const float* find(std::uint32_t channel, std::uint32_t place) const {
    if (channel >= n.channels || place == nowhere) return nullptr;
    return w + (place + channel * n.out_channels);
  }

  window_numbers n;
  const float* w;
  std::uint32_t depth;
  bool packs;
};

void convolution(const cuda_stream& s, const convolution_shape& c, const float* x, const float* w, float* y) {
  const window_numbers n = numbers_of(c);
  const lines_of_windows left{{n, x, n.channels % 4 == 0 && are_packs(x)}};
  const matrix_columns right{w, n.values, n.out_channels, n.out_channels % 4 == 0 && are_packs(w)};
  implicit_product(s, "convolution", left, right, {y, n.windows, n.out_channels, n.values, 0, false});
}

void convolution_data_gradient(const cuda_stream& s, const convolution_shape& c, const float* dy,
                               const float* w, float* dx) {
  const window_numbers n = numbers_of(c);
  const std::uint32_t depth = n.values / n.channels * n.out_channels;
  const bool packs = n.out_channels % 4 == 0;
  const lines_of_pixels left{n, dy, depth, packs && are_packs(dy)};
  const columns_of_channels right{n, w, depth, packs && are_packs(w)};
  implicit_product(s, "convolution_data_gradient", left, right, {dx, n.pixels, n.channels, depth, 0, false});
}

void convolution_weight_gradient(const cuda_stream& s, const convolution_shape& c, const float* x,
                                 const float* dy, float* dw) {
  const window_numbers n = numbers_of(c);
  const lines_of_values left{{n, x, n.channels % 4 == 0 && are_packs(x)}};
  const matrix_columns right{dy, n.windows, n.out_channels, n.out_channels % 4 == 0 && are_packs(dy)};
  implicit_product(s, "convolution_weight_gradient", left, right,
                   {dw, n.values, n.out_channels, n.windows, 0, false});
}

} // namespace

window_numbers numbers_of(const convolution_shape& c) {
  const window_grid& g = c.windows;
  const auto small = [](std::size_t n) { return checked("positions", {n, 4}) / 4; }; // sums of two still fit
  window_numbers n{};
  n.height = small(g.height);
  n.width = small(g.width);
  n.channels = small(g.channels);
  n.out_channels = small(c.out_channels);
  n.out_height = small(g.out_height);
  n.out_width = small(g.out_width);
  n.windows = checked("windows", {g.batch, g.out_height, g.out_width});
  n.pixels = checked("pixels", {g.batch, g.height, g.width});
  n.values = checked("values of a window", {g.rows, g.columns, g.channels});
  n.pad_top = static_cast<std::int32_t>(small(g.pad_top));
  n.pad_left = static_cast<std::int32_t>(small(g.pad_left));
  checked("values of an image",
          {g.height + g.pad_top + g.rows, g.width + g.pad_left + g.columns, g.channels});
  n.image_values = checked("values of an image", {g.height, g.width, g.channels});
  n.result_values = checked("values of an image", {g.out_height, g.out_width, c.out_channels});
  checked("weights", {n.values, c.out_channels});
  small(g.out_height * g.stride_rows + g.rows);
  small(g.out_width * g.stride_columns + g.columns);
  n.per_image = divider<std::uint32_t>(std::size_t{n.out_height} * n.out_width);
  n.per_row = divider<std::uint32_t>(n.out_width);
  n.columns = divider<std::uint32_t>(small(g.columns));
  n.by_channels = divider<std::uint32_t>(n.channels);
  n.by_outs = divider<std::uint32_t>(n.out_channels);
  n.by_pixels = divider<std::uint32_t>(std::size_t{n.height} * n.width);
  n.by_width = divider<std::uint32_t>(n.width);
  n.stride_rows = divider<std::uint32_t>(small(g.stride_rows));
  n.stride_columns = divider<std::uint32_t>(small(g.stride_columns));
  return n;
}

MAILGRAD_GPU_BODY_OF(plan_convolution, convolution)
MAILGRAD_GPU_BODY_OF(plan_convolution_data_gradient, convolution_data_gradient)
MAILGRAD_GPU_BODY_OF(plan_convolution_weight_gradient, convolution_weight_gradient)

} // namespace mailgrad::cuda
