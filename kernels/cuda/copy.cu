#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/kernels/cuda/indices.hpp>
#include <mailgrad/kernels/cuda/packs.hpp>

namespace mailgrad::cuda {
namespace {

/// So many copies are an argument of one launch; more take several.
constexpr std::size_t copies_at_once = 64;

struct copied_part {
  const float* from;
  float* to;
  const std::int32_t* numbers; ///< null: those of all rows, from the first on
  std::size_t stride;
  std::uint32_t first, height;  ///< the first row of the part, and how many it has
  std::uint32_t n;              ///< floats or packs of all rows that are asked for
  divider<std::uint32_t> width; ///< in these

  /// The place of row `i` of those that are asked for; at least `height` if the part has it not, since a
  /// number below the first one becomes too large.
  __device__ std::uint32_t place_of(std::uint32_t i) const {
    return numbers ? static_cast<std::uint32_t>(numbers[i * stride]) - first : i;
  }
};

struct copy_list {
  copied_part items[copies_at_once];
};

/// store_floats() where other threads may store the same numbers at the same time.
template <unsigned size>
__device__ void store_as_others_do(float* x, const moved_floats<size>& m) {
#ifdef __CUDACC__
  if constexpr (size == 1)
    asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(__cvta_generic_to_global(x)), "f"(m.v[0])
                 : "memory");
  else
    asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(x)),
                 "f"(m.v[0]), "f"(m.v[1]), "f"(m.v[2]), "f"(m.v[3])
                 : "memory");
#else
  using moved = std::conditional_t<size == 1, moved_floats<1>, float_pack>; // which has to be aligned
  auto& to = *reinterpret_cast<moved*>(x);
  for (unsigned k = 0; k < size; ++k) std::atomic_ref(to.v[k]).store(m.v[k], std::memory_order_relaxed);
#endif
}

/// Blocks (x, y) make copy y. Each thread moves one float or one pack at a time.
template <unsigned size>
__global__ void copy_rows_kernel(copy_list list) {
  const copied_part c = list.items[blockIdx.y];
  for (std::size_t k = grid_thread(); k < c.n; k += grid_threads()) {
    auto column = static_cast<std::uint32_t>(k);
    const std::uint32_t row = c.place_of(c.width.divide(column));
    if (row >= c.height) continue;
    const std::size_t at = (std::size_t{row} * c.width.by() + column) * size;
    store_as_others_do(c.to + at, load_floats<size>(c.from + at));
  }
}

class row_launches {
public:
  row_launches(const cuda_stream& s, bool packs) : s_(s), packs_(packs) {}

  void add(const row_copy& c) {
    const std::size_t rows = c.is_whole() ? c.height() : c.count;
    if (c.width == 0) return;
    for_row_chunks(s_, "copy_rows", rows, c.width,
                   [&](std::size_t first, std::size_t count) { add(c, first, count); });
  }
  void queue() {
    if (count_ == 0) return;
    const dim3 grid(blocks_for(longest_), static_cast<unsigned>(count_));
    launch(s_, "copy_rows", grid, threads_per_block, 0,
           packs_ ? copy_rows_kernel<float_pack::size> : copy_rows_kernel<1>, list_);
    count_ = longest_ = 0;
  }

private:
  void add(const row_copy& c, std::size_t first, std::size_t count) {
    const std::size_t size = packs_ ? float_pack::size : 1, n = count * c.width / size;
    copied_part part{c.from,
                     c.to,
                     c.numbers,
                     c.stride,
                     static_cast<std::uint32_t>(c.row_begin),
                     static_cast<std::uint32_t>(c.height()),
                     static_cast<std::uint32_t>(n),
                     divider<std::uint32_t>(c.width / size)};
    if (c.is_whole()) {
      part.numbers = nullptr;
      part.from += first * c.width;
      part.to += first * c.width;
    } else {
      part.numbers += first * c.stride;
    }
    list_.items[count_++] = part;
    longest_ = std::max(longest_, n);
    if (count_ == copies_at_once) queue();
  }

  const cuda_stream& s_;
  bool packs_;
  copy_list list_{};
  std::size_t count_ = 0, longest_ = 0;
};

void copy_rows(const cuda_stream& s, std::span<const row_copy> copies) {
  bool packs = true;
  for (const row_copy& c : copies)
    packs = packs && c.width % float_pack::size == 0 && are_packs(c.from, c.to);
  row_launches launches(s, packs);
  for (const row_copy& c : copies) launches.add(c);
  launches.queue();
}

/// Axes of a box, the innermost last, whose extents and steps count floats or packs.
template <class Index>
struct box {
  static constexpr std::size_t most_axes = shape::max_rank + 1;
  divider<Index> extents[most_axes];
  Index rank;
  std::size_t from[most_axes], to[most_axes];
};

struct places {
  std::size_t from = 0, to = 0;
};

/// Where element k of the box lies in both memories, when its axes are walked in their order.
template <class Index>
__device__ places places_of(const box<Index>& b, Index k) {
  places at;
  for (Index i = b.rank; i-- > 0;) {
    const Index rest = i == 0 ? 0 : b.extents[i](k);
    const std::size_t index = k - rest * b.extents[i].by();
    at.from += index * b.from[i];
    at.to += index * b.to[i];
    k = rest;
  }
  return at;
}

template <class Index>
box<Index> box_of(std::span<const copied_axis> axes) {
  box<Index> made{};
  for (const copied_axis& a : axes) {
    if (a.extent == 1) continue;
    made.extents[made.rank] = divider<Index>(a.extent);
    made.from[made.rank] = a.from;
    made.to[made.rank++] = a.to;
  }
  return made;
}

constexpr unsigned moved_together = 4;

/// Each thread moves a few elements, or packs of four, which lie a block's width apart.
template <unsigned size, class Index>
__global__ void copy_kernel(box<Index> b, const float* from, float* to, std::size_t count) {
  moved_floats<size> moved[moved_together] = {};
  places at[moved_together] = {};
  const std::size_t first = std::size_t{blockIdx.x} * moved_together * blockDim.x + threadIdx.x;
#pragma unroll
  for (unsigned i = 0; i < moved_together; ++i) {
    const std::size_t k = first + i * blockDim.x;
    if (k >= count) break;
    at[i] = places_of(b, static_cast<Index>(k));
    moved[i] = load_floats<size>(from + at[i].from * size);
  }
#pragma unroll
  for (unsigned i = 0; i < moved_together; ++i)
    if (first + i * blockDim.x < count) store_floats(to + at[i].to * size, moved[i]);
}

template <unsigned size>
void run_in_order(const cuda_stream& s, std::span<const copied_axis> axes, const float* from, float* to,
                  std::size_t count) {
  const std::size_t per_block = std::size_t{threads_per_block} * moved_together;
  const auto blocks = static_cast<unsigned>((count + per_block - 1) / per_block);
  if (fits_32_bits(s, count))
    launch(s, "strided_copy", blocks, threads_per_block, 0, copy_kernel<size, std::uint32_t>,
           box_of<std::uint32_t>(axes), from, to, count);
  else
    launch(s, "strided_copy", blocks, threads_per_block, 0, copy_kernel<size, std::size_t>,
           box_of<std::size_t>(axes), from, to, count);
}

/// A box whose rows lie side by side in the source, and whose columns do in the target: outer axes around
/// many transposed matrices.
struct transposition {
  std::size_t rows, columns; ///< extents
  std::size_t from, to;      ///< of a column in the source, of a row in the target
  box<std::uint32_t> outer;
  divider<std::uint32_t> tiles_of_rows, tiles_of_columns;
};

constexpr unsigned side = 64; ///< of a tile
constexpr unsigned pitch =
    side + 1; ///< so that neither rows nor columns of a tile lie in one bank of shared memory

struct tile_place {
  const float* from;
  float* to;
  unsigned rows, columns;
};

__device__ tile_place place_of_tile(const transposition& t, const float* from, float* to) {
  const std::uint32_t rest = t.tiles_of_columns(blockIdx.x), outer = t.tiles_of_rows(rest);
  const std::size_t column = std::size_t{side} * (blockIdx.x - rest * t.tiles_of_columns.by());
  const std::size_t row = std::size_t{side} * (rest - outer * t.tiles_of_rows.by());
  const places at = places_of(t.outer, outer);
  const auto rows = t.rows - row < side ? t.rows - row : side;
  const auto columns = t.columns - column < side ? t.columns - column : side;
  return {from + at.from + row + column * t.from, to + at.to + column + row * t.to,
          static_cast<unsigned>(rows), static_cast<unsigned>(columns)};
}

/// A block moves one tile by way of shared memory, so that it reads along rows and writes along columns,
/// `size` floats at a time.
template <unsigned size>
__global__ void transpose_kernel(transposition t, const float* from, float* to) {
  constexpr unsigned threads_of_line = side / size, lines = threads_per_block / threads_of_line;
  float* const tile = shared_memory<float>(); // tile[column][row]
  const tile_place place = place_of_tile(t, from, to);
  const unsigned along = threadIdx.x % threads_of_line * size, line = threadIdx.x / threads_of_line;
  moved_floats<size> moved[side / lines] = {};
#pragma unroll
  for (unsigned i = 0; i < side / lines; ++i)
    if (const unsigned column = line + i * lines; along < place.rows && column < place.columns)
      moved[i] = load_floats<size>(place.from + along + column * t.from);
#pragma unroll
  for (unsigned i = 0; i < side / lines; ++i)
#pragma unroll
    for (unsigned k = 0; k < size; ++k) tile[(line + i * lines) * pitch + along + k] = moved[i].v[k];
  __syncthreads();
#pragma unroll
  for (unsigned i = 0; i < side / lines; ++i) {
    const unsigned row = line + i * lines;
#pragma unroll
    for (unsigned k = 0; k < size; ++k) moved[i].v[k] = tile[(along + k) * pitch + row];
    if (along < place.columns && row < place.rows) store_floats(place.to + along + row * t.to, moved[i]);
  }
}

/// Whether four neighbours along `line` can always be moved together: no other step leads off the packs.
bool moves_packs(std::span<const copied_axis> axes, const copied_axis& line, std::size_t copied_axis::*step,
                 const float* address) {
  bool fits = are_packs(address) && line.*step == 1 && line.extent % float_pack::size == 0;
  for (const copied_axis& a : axes)
    fits = fits && (&a == &line || a.extent == 1 || a.*step % float_pack::size == 0);
  return fits;
}

/// Whether the box is one of transposed matrices, which are large enough for tiles.
bool is_transposition(std::span<const copied_axis> axes) {
  const copied_axis &rows = axes[axes.size() - 2], &columns = axes.back();
  return rows.from == 1 && columns.to == 1 && std::min(rows.extent, columns.extent) >= side / 4;
}

/// Returns false if there are more tiles than a grid has blocks.
bool run_transposed(const cuda_stream& s, std::span<const copied_axis> axes, const float* from, float* to,
                    std::size_t n) {
  const copied_axis &rows = axes[axes.size() - 2], &columns = axes.back();
  const std::size_t tiles_of_rows = (rows.extent + side - 1) / side;
  const std::size_t tiles_of_columns = (columns.extent + side - 1) / side;
  const std::size_t tiles = n / rows.extent / columns.extent * tiles_of_rows * tiles_of_columns;
  if (!fits_32_bits(s, tiles)) return false;
  const transposition t{.rows = rows.extent,
                        .columns = columns.extent,
                        .from = columns.from,
                        .to = rows.to,
                        .outer = box_of<std::uint32_t>(axes.first(axes.size() - 2)),
                        .tiles_of_rows = divider<std::uint32_t>(tiles_of_rows),
                        .tiles_of_columns = divider<std::uint32_t>(tiles_of_columns)};
  const bool packs =
      moves_packs(axes, rows, &copied_axis::from, from) && moves_packs(axes, columns, &copied_axis::to, to);
  launch(s, "strided_copy", static_cast<unsigned>(tiles), threads_per_block, sizeof(float) * side * pitch,
         packs ? transpose_kernel<float_pack::size> : transpose_kernel<1>, t, from, to);
  return true;
}

/// The box in packs, whose inner axis lies in one piece in both memories.
void run_in_packs(const cuda_stream& s, std::span<const copied_axis> axes, const float* from, float* to,
                  std::size_t n) {
  std::array<copied_axis, shape::max_rank + 1> packs{};
  std::copy(axes.begin(), axes.end(), packs.begin());
  for (copied_axis& a : packs) a = {a.extent, a.from / float_pack::size, a.to / float_pack::size};
  packs[axes.size() - 1] = {axes.back().extent / float_pack::size, 1, 1};
  run_in_order<float_pack::size>(s, std::span(packs).first(axes.size()), from, to, n / float_pack::size);
}

void copy_box(const cuda_stream& s, std::span<const copied_axis> axes, const float* from, float* to) {
  std::size_t n = 1;
  for (const copied_axis& a : axes) n *= a.extent;
  if (n == 0) return;
  const copied_axis& last = axes.back();
  if (n == last.extent && last.from == 1 && last.to == 1)
    return runtime::copy(s.stream, to, from, n * sizeof(float));
  if (is_transposition(axes) && run_transposed(s, axes, from, to, n)) return;
  if (moves_packs(axes, last, &copied_axis::from, from) && moves_packs(axes, last, &copied_axis::to, to))
    return run_in_packs(s, axes, from, to, n);
  run_in_order<1>(s, axes, from, to, n);
}

} // namespace

MAILGRAD_GPU_BODY(copy_rows)
MAILGRAD_GPU_BODY(copy_box)

} // namespace mailgrad::cuda
