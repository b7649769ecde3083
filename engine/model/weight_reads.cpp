#include <mailgrad/engine/model/weight_reads.hpp>
#include <mailgrad/graph/operation.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

using row_lists = std::vector<rows_in_batch>;

void require_of(const node& n, const operation& made, bool holds, const std::string& why) {
  if (!holds) throw graph_error(fmt::format("{}: {} looks up rows {}", line_of(n), made.name(), why));
}

/// What it says of itself is the word of its author.
void require_rows(const node& n, const operation& made, const rows_read& read) {
  require_of(n, made, read.operand < n.inputs.size(),
             fmt::format("by its operand {}, and has {}", read.operand, n.inputs.size()));
  const value_type& numbers = n.inputs[read.operand].type();
  require_of(n, made, numbers.type == dtype::int32,
             fmt::format("by numbers that are {} and not int32", to_string(numbers)));
  require_of(n, made, read.stride > 0, "with a stride of 0");
  require_of(n, made, read.first < numbers.dims.size() || numbers.dims.size() == 0,
             fmt::format("by number {} of {}", read.first, numbers.dims.size()));
}

/// Adds the rows that a node of the program reads of its operand `i`. Returns whether it reads no others.
bool add_rows_read_by(const node& n, std::size_t i, const graph& g, const bound_sources& sources,
                      row_lists& all) {
  const auto* const made = std::get_if<operation_node>(&n.what);
  const auto* const reader = made ? dynamic_cast<const row_reader*>(made->get()) : nullptr;
  const auto read = reader ? reader->rows_of(n.inputs, i) : std::nullopt;
  if (!read) return false;
  require_rows(n, **made, *read);
  const value& numbers = n.inputs[read->operand];
  if (!std::holds_alternative<input_node>(g.of(numbers).what)) return false;
  const auto bound = std::ranges::find(sources.inputs(), numbers, &bound_sources::input_binding::what);
  if (bound == sources.inputs().end()) return true;
  const std::size_t size = numbers.dims().size();
  const std::size_t count = size > read->first ? (size - read->first - 1) / read->stride + 1 : 0;
  all.push_back({bound->part, read->first, read->stride, count});
  return true;
}

/// The rows that a graph reads of a variable; none if it may read it whole.
std::optional<row_lists> rows_read_of(const graph& g, const value& variable, const bound_sources& sources) {
  row_lists all;
  for (const node& n : g.nodes())
    for (std::size_t i = 0; i < n.inputs.size(); ++i)
      if (n.inputs[i] == variable && !add_rows_read_by(n, i, g, sources, all)) return std::nullopt;
  return all;
}

void list(const table_part& part, const float* from, float* to, const weight_reads::numbers_of& numbers,
          std::vector<row_copy>& all) {
  row_copy copy{from, to, part.width, part.row_begin, part.row_end};
  std::size_t named = 0;
  for (const rows_in_batch& rows : part.rows) named += rows.count;
  if (named >= copy.height()) return all.push_back(copy);
  for (const rows_in_batch& rows : part.rows) {
    if (rows.count == 0) continue;
    const std::int32_t* const first = numbers(rows.part);
    if (first == nullptr)
      throw graph_error("a batch has no numbers of rows, and a table is looked up by them");
    copy.count = rows.count;
    copy.numbers = first + rows.first;
    copy.stride = rows.stride;
    all.push_back(copy);
  }
}

} // namespace

weight_reads::weight_reads(const graph& g, const program& code, const bound_sources& sources,
                           const parameter_layout& layout)
    : tables_(layout.shard_count()) {
  std::vector<bound_sources::variable_binding> used = sources.variables();
  std::ranges::sort(used, {}, &bound_sources::variable_binding::index); // by their offsets, too
  for (const auto& [what, v] : used) {
    if (!code.needs(what)) continue;
    const placed_variable& placed = layout.variables()[v];
    if (!placed.sparse) {
      if (whole_.empty()) whole_.push_back({0, layout.dense_size()});
      continue;
    }
    const auto rows = rows_read_of(g, what, sources);
    if (!rows) {
      whole_.push_back({placed.offset, placed.offset + placed.dims.size()});
      continue;
    }
    by_rows_.push_back(v);
    for (const table_piece& p : pieces_of_table(layout, v)) tables_[p.shard].push_back({p, *rows});
  }
}

void weight_reads::list_copies(std::uint32_t shard, const float* from, float* to, const numbers_of& numbers,
                               std::vector<row_copy>& all) const {
  for (const table_part& part : tables_[shard])
    list(part, from + part.in_shard, to + part.in_model, numbers, all);
}

} // namespace mailgrad
