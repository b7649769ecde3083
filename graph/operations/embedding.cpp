#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/kinds.hpp>
#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <tuple>

namespace mailgrad {
namespace {

struct gather_kind {
  static constexpr std::string_view name = "gather";
  static constexpr std::size_t operands = 2;
  std::vector<value_type> infer(type_list inputs) const {
    const auto& [table, indices] = std::tie(inputs[0], inputs[1]);
    if (table.type != dtype::float32 || table.dims.rank() != 2)
      throw shape_error("the table must be float32[rows, width]");
    if (indices.type != dtype::int32) throw shape_error("the indices must be int32");
    std::vector<std::size_t> extents(indices.dims.begin(), indices.dims.end());
    extents.push_back(table.dims[1]);
    return {{shape(extents), dtype::float32}};
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    const value &table = d.inputs[0], &indices = d.inputs[1];
    const std::size_t count = indices.dims().size();
    const value rows = indices.dims().rank() == 1 ? indices : reshape(indices, {count}, d.where());
    return {sparse_rows{rows, reshape(*d.dy[0], {count, table.dims()[1]}, d.where())}, {}};
  }
  std::optional<rows_read> rows_of(value_list, std::size_t table) const {
    if (table != 0) return std::nullopt;
    return rows_read{1};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel(
        [table = t.inputs[0].dims, count = t.inputs[1].dims.size()](const stream& s, const call& c) {
          gather(s, {c.in(0), table.size()}, table[1], {c.in<std::int32_t>(1), count}, c.out());
        });
  }
  std::vector<std::string> to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list) const {
    return {to.add("Gather", {inputs[0].name, inputs[1].name}, {{"axis", 0}})};
  }
};

struct scatter_kind {
  static constexpr std::string_view name = "scatter_rows";
  static constexpr std::size_t operands = 2;
  shape table{};
  void keep(archive& a) { keep_attributes(a, "table", table); }
  std::vector<value_type> infer(type_list inputs) const {
    const auto& [rows, values] = std::tie(inputs[0], inputs[1]);
    if (table.rank() != 2) fail_with<shape_error>("a table has two extents, not {}", to_string(table));
    if (rows.type != dtype::int32 || rows.dims.rank() != 1) throw shape_error("the rows must be int32[n]");
    const shape expected{rows.dims[0], table[1]};
    if (values.type != dtype::float32 || values.dims != expected)
      fail_with<shape_error>("the values must be float32 {}", to_string(expected));
    return {{table, dtype::float32}};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    const std::size_t count = t.inputs[0].dims[0];
    return kernel(
        [table = table, count](const stream& s, const call& c) {
          scatter_rows(s, {c.in<std::int32_t>(0), count}, c.in(1), table[1], {c.out(), table.size()},
                       c.scratch);
        },
        scatter_scratch_bytes(t.where, count));
  }
};

/// The gradient makes two values for each table.
void require_few_tables(std::size_t count) {
  constexpr std::size_t most = 1 << 16;
  if (count > most) fail_with<shape_error>("there may be {} tables, not {}", most, count);
}

/// Inputs: the indices, the gradient of the gathered rows. Outputs: the row numbers of every table, then the
/// values of these rows.
struct tables_gradient_kind {
  static constexpr std::string_view name = "gather_tables_gradient";
  static constexpr std::size_t operands = 2;
  std::vector<value_type> infer(type_list inputs) const {
    const shape& dy = inputs[1].dims;
    if (inputs[1].type != dtype::float32 || dy.rank() != 3)
      throw shape_error("the gradient must be float32[samples, tables, width]");
    if (inputs[0] != value_type{{dy[0], dy[1]}, dtype::int32})
      throw shape_error("expected an index for each row of the gradient");
    require_few_tables(dy[1]);
    std::vector<value_type> outputs(dy[1], {shape{dy[0]}, dtype::int32});
    outputs.insert(outputs.end(), dy[1], {shape{dy[0], dy[2]}, dtype::float32});
    return outputs;
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    const shape& dy = t.inputs[1].dims;
    return kernel([rows = dy[0] * dy[1], width = dy[2],
                   parts = std::vector<table_gradient>(dy[1])](const stream& s, const call& c) mutable {
      for (std::size_t j = 0; j < parts.size(); ++j)
        parts[j] = {c.out<std::int32_t>(j), c.out(parts.size() + j)};
      gather_tables_gradient(s, {c.in<std::int32_t>(0), rows}, c.in(1), width, parts);
    });
  }
};

/// Inputs: the tables, then the indices.
struct tables_kind {
  static constexpr std::string_view name = "gather_tables";
  std::vector<value_type> infer(type_list inputs) const {
    if (inputs.size() < 2) throw shape_error("there are no tables");
    require_few_tables(inputs.size() - 1);
    const auto tables = inputs.first(inputs.size() - 1);
    const value_type& indices = inputs.back();
    for (const value_type& t : tables)
      if (t.type != dtype::float32 || t.dims.rank() != 2 || t.dims[1] != tables[0].dims.back())
        throw shape_error("the tables must be float32[rows, width], of one width");
    if (indices.type != dtype::int32 || indices.dims.rank() != 2 || indices.dims[1] != tables.size())
      fail_with<shape_error>("the indices must be int32[samples, {}]", tables.size());
    return {{{indices.dims[0], tables.size(), tables[0].dims[1]}, dtype::float32}};
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    const std::vector<value> parts = d.apply(made(tables_gradient_kind()), {d.inputs.back(), *d.dy[0]});
    std::vector<adjoint> found;
    for (std::size_t j = 0; j + 1 < d.inputs.size(); ++j)
      found.emplace_back(sparse_rows{parts[j], parts[d.inputs.size() - 1 + j]});
    found.emplace_back(); // the indices have no gradient
    return found;
  }
  std::optional<rows_read> rows_of(value_list inputs, std::size_t table) const {
    const std::size_t tables = inputs.size() - 1;
    if (table >= tables) return std::nullopt;
    return rows_read{tables, table, tables};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    std::vector<row_table> tables;
    for (const value_type& table : t.inputs.first(t.inputs.size() - 1))
      tables.push_back({nullptr, table.dims[0]});
    return kernel([width = t.inputs[0].dims[1], count = t.inputs.back().dims.size(),
                   tables = std::move(tables)](const stream& s, const call& c) mutable {
      for (std::size_t j = 0; j < tables.size(); ++j) tables[j].values = c.in(j);
      gather_tables(s, tables, width, {c.in<std::int32_t>(tables.size()), count}, c.out());
    });
  }
};

} // namespace

value gather(const value& table, const value& indices, std::source_location where) {
  return table.owner(where).apply_one(made(gather_kind()), {table, indices}, where);
}
value scatter_rows(const value& rows, const value& values, const shape& dims, std::source_location where) {
  return rows.owner(where).apply_one(made(scatter_kind{dims}), {rows, values}, where);
}

value gather_tables(std::span<const value> tables, const value& indices, std::source_location where) {
  std::vector<value> inputs(tables.begin(), tables.end());
  inputs.push_back(indices);
  return indices.owner(where).apply_one(made(tables_kind()), std::move(inputs), where);
}

void add_embedding_kinds(operation_registry& to) {
  add_kinds(to, gather_kind(), scatter_kind(), tables_kind(), tables_gradient_kind());
}

} // namespace mailgrad
