#include <mailgrad/kernels/cuda/indices.hpp>
#include <mailgrad/kernels/cuda/packs.hpp>
#include <mailgrad/kernels/gather_tables.hpp>

namespace mailgrad::cuda {

namespace {

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

} // namespace

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

} // namespace mailgrad::cuda
