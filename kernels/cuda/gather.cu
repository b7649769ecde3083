#include <mailgrad/kernels/cuda/indices.hpp>
#include <mailgrad/kernels/cuda/row_lanes.hpp>
#include <mailgrad/kernels/cuda/row_order.hpp>
#include <mailgrad/kernels/gather.hpp>

namespace mailgrad::cuda {
namespace {

struct asked_rows {
  const std::int32_t* rows;
  std::uint32_t first; ///< the number of rows[0] among all that are asked for
  fault_report fault;  ///< its limit is the number of rows of the table

  /// Whether the table has the row. `speaks`: this thread notes it if not.
  __device__ bool has(std::uint32_t i, bool speaks) const {
    const std::int32_t row = rows[i];
    if (static_cast<std::size_t>(row) < fault.limit) return true; // a negative row becomes too large
    if (speaks) fault.note(first + i, row);
    return false;
  }
};

/// Each thread moves one float or one pack. `width` counts those, as `n` does.
template <unsigned size>
__global__ void gather_kernel(const float* table, asked_rows asked, float* result,
                              divider<std::uint32_t> width, std::uint32_t n) {
  for (std::size_t k = grid_thread(); k < n; k += grid_threads()) {
    auto column = static_cast<std::uint32_t>(k);
    const std::uint32_t i = width.divide(column);
    moved_floats<size> moved{};
    if (asked.has(i, column == 0))
      moved = load_floats<size>(table + (std::size_t(asked.rows[i]) * width.by() + column) * size);
    store_floats(result + k * size, moved);
  }
}

void gather(const cuda_stream& s, std::span<const float> table, std::size_t width,
            std::span<const std::int32_t> rows, float* result) {
  if (width == 0) return;
  const bool packs = width % float_pack::size == 0 && are_packs(table.data(), result);
  const std::size_t size = packs ? float_pack::size : 1;
  for_row_chunks(s, "gather", rows.size(), width, [&](std::size_t first, std::size_t count) {
    const std::size_t n = count * width / size;
    launch(s, "gather", blocks_for(n), threads_per_block, 0,
           packs ? gather_kernel<float_pack::size> : gather_kernel<1>, table.data(),
           asked_rows{rows.data() + first, static_cast<std::uint32_t>(first),
                      fault_of(s, fault_kind::row, table.size() / width)},
           result + first * width, divider<std::uint32_t>(width / size), static_cast<std::uint32_t>(n));
  });
}

/// So many tables are arguments of one launch; more take several.
constexpr std::size_t tables_at_once = 64;

template <class Table>
struct table_list {
  Table items[tables_at_once];
};

/// What a kernel visits: for each sample, one row of each of some neighbouring tables.
struct visited_rows {
  const std::int32_t* rows; ///< of the first sample and the first of these tables
  std::uint32_t stride;     ///< the number of all tables
  std::uint32_t n;          ///< floats or packs of all rows
  divider<std::uint32_t> width, tables;

  /// Which float or pack thread k has.
  struct place {
    std::uint32_t sample, table, column;
  };
  __device__ place at(std::uint32_t k) const {
    place found{};
    found.column = k;
    const std::uint32_t row = width.divide(found.column);
    found.table = row;
    found.sample = tables.divide(found.table);
    return found;
  }
  /// The number of a row among all of the operand.
  __device__ std::size_t number(const place& p) const { return std::size_t{p.sample} * stride + p.table; }
};

template <unsigned size>
__global__ void gather_tables_kernel(table_list<row_table> tables, visited_rows visited, float* result,
                                     fault_report fault, std::uint32_t first) {
  for (std::size_t k = grid_thread(); k < visited.n; k += grid_threads()) {
    const visited_rows::place p = visited.at(static_cast<std::uint32_t>(k));
    const std::size_t number = visited.number(p);
    const row_table table = tables.items[p.table];
    const std::int32_t row = visited.rows[number];
    moved_floats<size> moved{};
    if (static_cast<std::size_t>(row) < table.height) { // a negative row becomes too large
      moved = load_floats<size>(table.values + (std::size_t(row) * visited.width.by() + p.column) * size);
    } else if (p.column == 0) {
      fault.limit = table.height;
      fault.note(first + static_cast<std::uint32_t>(number), row);
    }
    store_floats(result + (number * visited.width.by() + p.column) * size, moved);
  }
}

template <unsigned size>
__global__ void gather_tables_gradient_kernel(table_list<table_gradient> parts, visited_rows visited,
                                              const float* gradient) {
  for (std::size_t k = grid_thread(); k < visited.n; k += grid_threads()) {
    const visited_rows::place p = visited.at(static_cast<std::uint32_t>(k));
    const std::size_t number = visited.number(p);
    const table_gradient part = parts.items[p.table];
    if (p.column == 0) part.rows[p.sample] = visited.rows[number];
    store_floats(part.values + (std::size_t{p.sample} * visited.width.by() + p.column) * size,
                 load_floats<size>(gradient + (number * visited.width.by() + p.column) * size));
  }
}

/// Calls launch_with(list of tables, what to visit, number of its first row, number of its first sample) for
/// as many tables and samples at a time as a launch takes. `size` is that of a move.
template <class Table, class Launch>
void for_tables(const cuda_stream& s, const char* name, std::span<const Table> tables, std::size_t width,
                std::size_t size, std::span<const std::int32_t> rows, Launch launch_with) {
  if (tables.empty() || rows.empty() || width == 0) return;
  const std::size_t samples = rows.size() / tables.size(), width_in_moves = width / size;
  for (std::size_t t = 0; t < tables.size(); t += tables_at_once) {
    const std::size_t count = std::min(tables_at_once, tables.size() - t);
    table_list<Table> list{};
    std::copy_n(tables.begin() + static_cast<std::ptrdiff_t>(t), count, list.items);
    for_row_chunks(s, name, samples, count * width, [&](std::size_t sample, std::size_t chunk) {
      const std::size_t first = sample * tables.size() + t;
      const visited_rows visited{rows.data() + first, static_cast<std::uint32_t>(tables.size()),
                                 static_cast<std::uint32_t>(chunk * count * width_in_moves),
                                 divider<std::uint32_t>(width_in_moves), divider<std::uint32_t>(count)};
      launch_with(list, visited, first, sample);
    });
  }
}

void gather_tables(const cuda_stream& s, std::span<const row_table> tables, std::size_t width,
                   std::span<const std::int32_t> rows, float* result) {
  bool packs = width % float_pack::size == 0 && are_packs(result);
  for (const row_table& t : tables) packs = packs && are_packs(t.values);
  const auto kernel = packs ? gather_tables_kernel<float_pack::size> : gather_tables_kernel<1>;
  const std::size_t size = packs ? float_pack::size : 1;
  for_tables(s, "gather_tables", tables, width, size, rows,
             [&](const auto& list, const visited_rows& visited, std::size_t first, std::size_t) {
               launch(s, "gather_tables", blocks_for(visited.n), threads_per_block, 0, kernel, list, visited,
                      result + first * width, fault_of(s, fault_kind::row, 0),
                      static_cast<std::uint32_t>(first));
             });
}

void gather_tables_gradient(const cuda_stream& s, std::span<const std::int32_t> rows, const float* gradient,
                            std::size_t width, std::span<const table_gradient> parts) {
  bool packs = width % float_pack::size == 0 && are_packs(gradient);
  for (const table_gradient& part : parts) packs = packs && are_packs(part.values);
  const auto kernel =
      packs ? gather_tables_gradient_kernel<float_pack::size> : gather_tables_gradient_kernel<1>;
  const std::size_t size = packs ? float_pack::size : 1;
  for_tables(s, "gather_tables_gradient", parts, width, size, rows,
             [&](auto list, const visited_rows& visited, std::size_t first, std::size_t sample) {
               for (std::size_t j = 0; j < visited.tables.by(); ++j) {
                 list.items[j].rows += sample;
                 list.items[j].values += sample * width;
               }
               launch(s, "gather_tables_gradient", blocks_for(visited.n), threads_per_block, 0, kernel, list,
                      visited, gradient + first * width);
             });
}

constexpr unsigned largest_tile = 2048;

/// Sorts a tile of keys in shared memory, two by each thread.
///
/// Source  Batcher, "Sorting networks and their applications", AFIPS 1968: the bitonic sorter.
__global__ void sort_tile_kernel(const std::int32_t* rows, std::uint32_t n, row_key* keys) {
  auto* const workspace = shared_memory<row_key>();
  const unsigned tile = 2 * blockDim.x;
  for (unsigned i = threadIdx.x; i < tile; i += blockDim.x) {
    const std::uint32_t position = blockIdx.x * tile + i;
    row_key key = ~row_key{0};
    if (position < n) {
      const std::int32_t row = rows[position];
      key = first_key_of(row < 0 ? row_of_end : static_cast<std::uint32_t>(row)) | position;
    }
    workspace[i] = key;
  }
  for (unsigned run = 2; run <= tile; run *= 2)
    for (unsigned distance = run / 2; distance > 0; distance /= 2) {
      __syncthreads();
      const unsigned i = threadIdx.x / distance * 2 * distance + threadIdx.x % distance;
      const row_key a = workspace[i], b = workspace[i + distance];
      if ((a > b) == ((i & run) == 0)) {
        workspace[i] = b;
        workspace[i + distance] = a;
      }
    }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < tile; i += blockDim.x)
    if (blockIdx.x * tile + i < n) keys[blockIdx.x * tile + i] = workspace[i];
}

/// Puts each key where it belongs among those of all tiles: behind as many as are smaller.
__global__ void merge_kernel(const row_key* sorted, std::uint32_t n, std::uint32_t tile, row_key* keys) {
  const auto i = static_cast<std::uint32_t>(grid_thread());
  if (i >= n) return;
  const row_key key = sorted[i];
  std::uint32_t place = i % tile;
  for (std::uint32_t first = 0; first < n; first += tile) {
    if (first == i - i % tile) continue;
    std::uint32_t low = first, high = n - first < tile ? n : first + tile;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (sorted[middle] < key)
        low = middle + 1;
      else
        high = middle;
    }
    place += low - first;
  }
  keys[place] = key;
}

/// A list in the order of its rows, and what it is added to.
struct ordered_list {
  ordered_keys order;
  fault_report fault; ///< its limit is the number of rows of the table

  /// Notes the rows that the table lacks.
  __device__ void note_faults(std::uint32_t list_end) const {
    if (fault.limit >= row_of_end) return;
    const std::uint32_t last = order.below(first_key_of(row_of_end));
    const auto height = static_cast<std::uint32_t>(fault.limit);
    for (std::uint32_t i = order.below(first_key_of(height)) + threadIdx.x; i < last; i += blockDim.x)
      if (position_of(order.keys[i]) < list_end)
        fault.note(position_of(order.keys[i]), static_cast<std::int32_t>(row_of(order.keys[i])));
  }
};

/// Block (x, y) has some rows of the table, each of which a warp begins, and 32 columns or packs of them.
template <unsigned size>
__global__ void scatter_kernel(ordered_list list, const float* values, std::size_t width, float* table,
                               unsigned rows_of_block) {
  const unsigned warp = threadIdx.x / warp_size, lane = threadIdx.x % warp_size;
  const std::size_t column = (std::size_t{blockIdx.y} * warp_size + lane) * size;
  const bool works = column < width;
  const std::uint32_t end = list.order.end();
  if (blockIdx.x == 0 && blockIdx.y == 0) list.note_faults(end);

  const std::size_t row = std::size_t{blockIdx.x} * rows_of_block + warp;
  const bool has_row = warp < rows_of_block && row < list.fault.limit;
  key_range mine{0, 0};
  if (has_row) mine = list.order.run_of(static_cast<std::uint32_t>(row), end);
  const moved_floats<size> sum = sum_runs<size>(list.order.keys, mine, values + column, width, works);
  if (has_row && works) store_floats<size>(table + row * width + column, sum);
}

void scatter_rows(const cuda_stream& s, std::span<const std::int32_t> rows, const float* values,
                  std::size_t width, std::span<float> table, void* scratch) {
  if (table.empty()) return;
  if (rows.empty()) return runtime::fill(s.stream, table.data(), 0, table.size_bytes());
  if (rows.size() > s.most_in_32_bits)
    throw shape_error("scatter_rows: a GPU takes fewer than 2^31 rows, not " + std::to_string(rows.size()));
  const auto n = static_cast<std::uint32_t>(rows.size());
  const std::size_t height = table.size() / width;
  const ordered_list list{{order_rows(s, rows.data(), n, scratch), n}, fault_of(s, fault_kind::row, height)};
  const bool packs = width % float_pack::size == 0 && are_packs(values, table.data());
  const std::size_t size = packs ? float_pack::size : 1, columns = warp_size * size;
  const unsigned rows_of_block = height < busy_blocks ? 1 : warps_of_runs;
  const dim3 grid(static_cast<unsigned>((height + rows_of_block - 1) / rows_of_block),
                  static_cast<unsigned>((width + columns - 1) / columns));
  launch(s, "scatter_rows", grid, threads_per_block, shared_bytes_of_runs(size),
         packs ? scatter_kernel<float_pack::size> : scatter_kernel<1>, list, values, width, table.data(),
         rows_of_block);
}

constexpr unsigned rows_of_block = threads_per_block / warp_size;

struct rows_on_gpu {
  const std::int32_t* columns;
  const float* values;
  const std::int32_t* offsets;
  std::size_t entries, rows;
  fault_report wrong_row; ///< its limit is the number of entries
  struct range {
    std::size_t first, last;
  };
  /// The entries of a row, none if they are not all there. `speaks`: this thread notes it then.
  __device__ range entries_of(std::size_t row, bool speaks) const {
    const std::int32_t first = offsets[row], last = offsets[row + 1];
    if (first >= 0 && last >= first && static_cast<std::size_t>(last) <= entries)
      return {static_cast<std::size_t>(first), static_cast<std::size_t>(last)};
    if (speaks) wrong_row.note(static_cast<std::uint32_t>(row), first >= 0 && last >= first ? last : first);
    return {0, 0};
  }
};

/// A warp has a row: `width_lanes` neighbours have that many columns of the result, and the other threads of
/// a column take its entries in turn.
__global__ void sparse_product_kernel(rows_on_gpu x, const float* table, std::size_t width,
                                      unsigned width_lanes, float* y, fault_report wrong_column) {
  const unsigned lane = threadIdx.x % warp_size, group = lane / width_lanes, groups = warp_size / width_lanes;
  const std::size_t step = grid_threads() / warp_size;
  for (std::size_t row = grid_thread() / warp_size; row < x.rows; row += step) {
    const rows_on_gpu::range found = x.entries_of(row, lane == 0);
    for (std::size_t first = 0; first < width; first += width_lanes) {
      const std::size_t column = first + lane % width_lanes;
      float sum = 0;
      for (std::size_t j = found.first + group; j < found.last; j += groups) {
        const std::int32_t at = x.columns[j];
        if (static_cast<std::size_t>(at) < wrong_column.limit) { // a negative column becomes too large
          if (column < width) sum += x.values[j] * table[std::size_t(at) * width + column];
        } else if (column == 0) {
          wrong_column.note(static_cast<std::uint32_t>(j), at);
        }
      }
      for (unsigned distance = warp_size / 2; distance >= width_lanes; distance /= 2)
        sum += __shfl_xor_sync(0xffffffffU, sum, distance);
      if (group == 0 && column < width) y[row * width + column] = sum;
    }
  }
}

/// A warp has a row of x, and shares its entries and their numbers as the product does.
__global__ void sparse_product_gradient_kernel(rows_on_gpu x, const float* dy, std::size_t width,
                                               unsigned width_lanes, float* rows) {
  const unsigned lane = threadIdx.x % warp_size, group = lane / width_lanes, groups = warp_size / width_lanes;
  const std::size_t step = grid_threads() / warp_size;
  for (std::size_t row = grid_thread() / warp_size; row < x.rows; row += step) {
    const rows_on_gpu::range found = x.entries_of(row, lane == 0);
    for (std::size_t j = found.first + group; j < found.last; j += groups)
      for (std::size_t column = lane % width_lanes; column < width; column += width_lanes)
        rows[j * width + column] = x.values[j] * dy[row * width + column];
  }
}

rows_on_gpu on_gpu(const cuda_stream& s, const compressed_rows& x) {
  return {x.columns.data(), x.values, x.offsets.data(),
          x.columns.size(), x.rows(), fault_of(s, fault_kind::entries, x.columns.size())};
}

void sparse_product(const cuda_stream& s, const compressed_rows& x, std::span<const float> table,
                    std::size_t width, float* y) {
  if (x.rows() * width == 0) return;
  launch(s, "sparse_product", blocks_for(x.rows(), rows_of_block), threads_per_block, 0,
         sparse_product_kernel, on_gpu(s, x), table.data(), width, lanes_of(x.rows(), width).width, y,
         fault_of(s, fault_kind::column, table.size() / width));
}

void sparse_product_gradient(const cuda_stream& s, const compressed_rows& x, const float* dy,
                             std::size_t width, float* rows) {
  if (x.rows() * width == 0) return;
  launch(s, "sparse_product_gradient", blocks_for(x.rows(), rows_of_block), threads_per_block, 0,
         sparse_product_gradient_kernel, on_gpu(s, x), dy, width, lanes_of(x.rows(), width).width, rows);
}

} // namespace

const row_key* order_rows(const cuda_stream& s, const std::int32_t* rows, std::uint32_t n, void* scratch) {
  auto* const sorted = static_cast<row_key*>(scratch);
  const unsigned tile = std::clamp(std::bit_ceil(n), 2 * warp_size, largest_tile);
  const std::uint32_t tiles = n / tile + (n % tile == 0 ? 0 : 1);
  launch(s, "order_rows", tiles, tile / 2, tile * sizeof(row_key), sort_tile_kernel, rows, n, sorted);
  if (tiles == 1) return sorted;
  row_key* const keys = sorted + n;
  launch(s, "order_rows", (n - 1) / threads_per_block + 1, threads_per_block, 0, merge_kernel, sorted, n,
         tile, keys);
  return keys;
}

MAILGRAD_GPU_BODY(gather)
MAILGRAD_GPU_BODY(gather_tables)
MAILGRAD_GPU_BODY(gather_tables_gradient)
MAILGRAD_GPU_BODY(scatter_rows)
MAILGRAD_GPU_BODY(sparse_product)
MAILGRAD_GPU_BODY(sparse_product_gradient)

} // namespace mailgrad::cuda
