#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/onnx_nodes.hpp>
#include <mailgrad/graph/operation.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/graph/travelling.hpp>
#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <tuple>

namespace mailgrad {

namespace {

class gather_executable : public executable {
public:
  gather_executable(const shape& table, std::size_t count) : table_(table), count_(count) {}
  void run(const stream& s, const call& c) override {
    mailgrad::gather(s, {c.in(0), table_.size()}, table_[1], {c.in<std::int32_t>(1), count_}, c.out());
  }

private:
  shape table_;
  std::size_t count_;
};

class gather_operation : public operation,
                         public onnx_form,
                         public row_reader,
                         public travelling<gather_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "gather"; }

  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
    const auto& [table, indices] = std::tie(inputs[0], inputs[1]);
    if (table.type != dtype::float32 || table.dims.rank() != 2)
      throw shape_error("the table must be float32[rows, width]");
    if (indices.type != dtype::int32) throw shape_error("the indices must be int32");
    std::vector<std::size_t> extents(indices.dims.begin(), indices.dims.end());
    extents.push_back(table.dims[1]);
    return {{shape(extents), dtype::float32}};
  }

  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    const auto where = inputs[0].owner().of(outputs[0]).where;
    const std::size_t count = inputs[1].dims().size();
    const value rows = inputs[1].dims().rank() == 1 ? inputs[1] : reshape(inputs[1], {count}, where);
    return {sparse_rows{rows, reshape(*dy[0], {count, inputs[0].dims()[1]}, where)}, {}};
  }

  std::optional<rows_read> rows_of(std::span<const value>, std::size_t table) const override {
    if (table != 0) return std::nullopt;
    return rows_read{1};
  }

  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<gather_executable>(inputs[0].dims, inputs[1].dims.size());
  }

  std::vector<std::string> to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                   std::span<const onnx_value>) const override {
    return {to.add("Gather", {inputs[0].name, inputs[1].name}, {{"axis", 0}})};
  }
};

class scatter_executable : public executable {
public:
  scatter_executable(const shape& table, std::size_t count, device_kind where)
      : table_(table), count_(count), scratch_(scatter_scratch_bytes(where, count)) {}
  std::size_t scratch_bytes() const noexcept override { return scratch_; }
  void run(const stream& s, const call& c) override {
    mailgrad::scatter_rows(s, {c.in<std::int32_t>(0), count_}, c.in(1), table_[1], {c.out(), table_.size()},
                           c.scratch);
  }

private:
  shape table_;
  std::size_t count_, scratch_;
};

class scatter_operation : public operation, public travelling<scatter_operation> {
public:
  scatter_operation() = default;
  explicit scatter_operation(const shape& table) : table_(table) {}
  void keep(archive& a) {
    a.version(1);
    a.field("table", table_);
  }

  std::string_view name() const noexcept override { return "scatter_rows"; }

  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
    const auto& [rows, values] = std::tie(inputs[0], inputs[1]);
    if (table_.rank() != 2)
      throw shape_error(fmt::format("a table has two extents, not {}", to_string(table_)));
    if (rows.type != dtype::int32 || rows.dims.rank() != 1) throw shape_error("the rows must be int32[n]");
    const shape expected{rows.dims[0], table_[1]};
    if (values.type != dtype::float32 || values.dims != expected)
      throw shape_error(fmt::format("the values must be float32 {}", to_string(expected)));
    return {{table_, dtype::float32}};
  }

  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind where) const override {
    return std::make_unique<scatter_executable>(table_, inputs[0].dims[0], where);
  }

private:
  shape table_;
};

} // namespace

value gather(const value& table, const value& indices, std::source_location where) {
  return table.owner(where).apply_one(std::make_shared<gather_operation>(), {table, indices}, where);
}

value scatter_rows(const value& rows, const value& values, const shape& dims, std::source_location where) {
  return rows.owner(where).apply_one(std::make_shared<scatter_operation>(dims), {rows, values}, where);
}

void add_embedding_kinds(operation_registry& to) {
  to.add<gather_operation>();
  to.add<scatter_operation>();
}

namespace {

class tables_executable : public executable {
public:
  /// `inputs` are the tables, then the indices.
  explicit tables_executable(std::span<const value_type> inputs)
      : width_(inputs[0].dims[1]), count_(inputs.back().dims.size()) {
    for (const value_type& t : inputs.first(inputs.size() - 1)) tables_.push_back({nullptr, t.dims[0]});
  }

  void run(const stream& s, const call& c) override {
    for (std::size_t j = 0; j < tables_.size(); ++j) tables_[j].values = c.in(j);
    mailgrad::gather_tables(s, tables_, width_, {c.in<std::int32_t>(tables_.size()), count_}, c.out());
  }

private:
  std::size_t width_, count_;
  std::vector<row_table> tables_;
};

class tables_gradient_executable : public executable {
public:
  explicit tables_gradient_executable(const shape& dy) : rows_(dy[0] * dy[1]), width_(dy[2]), parts_(dy[1]) {}

  void run(const stream& s, const call& c) override {
    for (std::size_t j = 0; j < parts_.size(); ++j)
      parts_[j] = {c.out<std::int32_t>(j), c.out(parts_.size() + j)};
    gather_tables_gradient(s, {c.in<std::int32_t>(0), rows_}, c.in(1), width_, parts_);
  }

private:
  std::size_t rows_, width_;
  std::vector<table_gradient> parts_;
};

/// The gradient makes two values for each table.
void require_few_tables(std::size_t count) {
  constexpr std::size_t most = 1 << 16;
  if (count > most) throw shape_error(fmt::format("there may be {} tables, not {}", most, count));
}

/// Inputs: the indices, the gradient of the gathered rows. Outputs: the row numbers of every table, then the
/// values of these rows.
class tables_gradient_operation : public operation, public travelling<tables_gradient_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "gather_tables_gradient"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
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
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<tables_gradient_executable>(inputs[1].dims);
  }
};

class tables_operation : public operation, public row_reader, public travelling<tables_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "gather_tables"; }

  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    if (inputs.size() < 2) throw shape_error("there are no tables");
    require_few_tables(inputs.size() - 1);
    const auto tables = inputs.first(inputs.size() - 1);
    const value_type& indices = inputs.back();
    for (const value_type& t : tables)
      if (t.type != dtype::float32 || t.dims.rank() != 2 || t.dims[1] != tables[0].dims.back())
        throw shape_error("the tables must be float32[rows, width], of one width");
    if (indices.type != dtype::int32 || indices.dims.rank() != 2 || indices.dims[1] != tables.size())
      throw shape_error(fmt::format("the indices must be int32[samples, {}]", tables.size()));
    return {{{indices.dims[0], tables.size(), tables[0].dims[1]}, dtype::float32}};
  }

  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    graph& model = inputs[0].owner();
    const std::vector<value> parts = model.apply(std::make_shared<tables_gradient_operation>(),
                                                 {inputs.back(), *dy[0]}, model.of(outputs[0]).where);
    std::vector<adjoint> found;
    for (std::size_t j = 0; j + 1 < inputs.size(); ++j)
      found.emplace_back(sparse_rows{parts[j], parts[inputs.size() - 1 + j]});
    found.emplace_back(); // the indices have no gradient
    return found;
  }

  std::optional<rows_read> rows_of(std::span<const value> inputs, std::size_t table) const override {
    const std::size_t tables = inputs.size() - 1;
    if (table >= tables) return std::nullopt;
    return rows_read{tables, table, tables};
  }

  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<tables_executable>(inputs);
  }
};

} // namespace

value gather_tables(std::span<const value> tables, const value& indices, std::source_location where) {
  std::vector<value> inputs(tables.begin(), tables.end());
  inputs.push_back(indices);
  return indices.owner(where).apply_one(std::make_shared<tables_operation>(), std::move(inputs), where);
}

void add_gather_tables_kinds(operation_registry& to) {
  to.add<tables_operation>();
  to.add<tables_gradient_operation>();
}

} // namespace mailgrad
