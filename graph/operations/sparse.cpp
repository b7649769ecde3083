#include <mailgrad/graph/operations.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operation.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/tensor/error.hpp>

namespace mailgrad {

namespace {

/// Sizes of a batch of compressed rows. They are the first three inputs of both operations.
struct batch_sizes {
  std::size_t entries, offsets;

  explicit batch_sizes(std::span<const value_type> inputs)
      : entries(inputs[0].dims[0]), offsets(inputs[2].dims[0]) {}

  compressed_rows rows(const call& c) const {
    return {{c.in<std::int32_t>(0), entries}, c.in(1), {c.in<std::int32_t>(2), offsets}};
  }
};

/// Checks the first three inputs of both operations. Returns the number of rows.
std::size_t require_rows(std::span<const value_type> inputs) {
  const value_type &columns = inputs[0], &offsets = inputs[2];
  if (columns.type != dtype::int32 || columns.dims.rank() != 1)
    throw shape_error("columns must be int32[entries]");
  if (inputs[1] != value_type{columns.dims, dtype::float32})
    throw shape_error("values must be float32, as many as columns");
  if (offsets.type != dtype::int32 || offsets.dims.rank() != 1 || offsets.dims[0] == 0)
    throw shape_error("offsets must be int32[rows + 1]");
  return offsets.dims[0] - 1;
}

class product_executable : public executable {
public:
  explicit product_executable(std::span<const value_type> inputs) : batch_(inputs), table_(inputs[3].dims) {}
  void run(const stream& s, const call& c) override {
    sparse_product(s, batch_.rows(c), {c.in(3), table_.size()}, table_[1], c.out());
  }

private:
  batch_sizes batch_;
  shape table_;
};

class sparse_product_gradient_executable : public executable {
public:
  explicit sparse_product_gradient_executable(std::span<const value_type> inputs)
      : batch_(inputs), width_(inputs[3].dims[1]) {}
  void run(const stream& s, const call& c) override {
    sparse_product_gradient(s, batch_.rows(c), c.in(3), width_, c.out());
  }

private:
  batch_sizes batch_;
  std::size_t width_;
};

/// Inputs: columns, values, offsets, dy. The output has one row for each entry, which is added to the row of
/// the table that the entry names.
class sparse_product_gradient_operation : public operation,
                                          public travelling<sparse_product_gradient_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "sparse_matmul_gradient"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 4);
    const std::size_t rows = require_rows(inputs);
    const value_type& dy = inputs[3];
    if (dy.type != dtype::float32 || dy.dims.rank() != 2 || dy.dims[0] != rows)
      throw shape_error("the gradient must be float32[rows, width]");
    return {{shape{inputs[0].dims[0], dy.dims[1]}, dtype::float32}};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<sparse_product_gradient_executable>(inputs);
  }
};

class product_operation : public operation, public row_reader, public travelling<product_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "sparse_matmul"; }

  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 4);
    const std::size_t rows = require_rows(inputs);
    const value_type& table = inputs[3];
    if (table.type != dtype::float32 || table.dims.rank() != 2 || table.dims[1] == 0)
      throw shape_error("the table must be float32[columns of a row, width]");
    return {{shape{rows, table.dims[1]}, dtype::float32}};
  }

  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    graph& model = inputs[0].owner();
    const value rows = model.apply_one(std::make_shared<sparse_product_gradient_operation>(),
                                       {inputs[0], inputs[1], inputs[2], *dy[0]}, model.of(outputs[0]).where);
    return {{}, {}, {}, sparse_rows{inputs[0], rows}};
  }

  std::optional<rows_read> rows_of(std::span<const value>, std::size_t table) const override {
    if (table != 3) return std::nullopt;
    return rows_read{0};
  }

  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<product_executable>(inputs);
  }
};

} // namespace

value sparse_matmul(const value& columns, const value& values, const value& offsets, const value& table,
                    std::source_location where) {
  return columns.owner(where).apply_one(std::make_shared<product_operation>(),
                                        {columns, values, offsets, table}, where);
}

void add_sparse_kinds(operation_registry& to) {
  to.add<product_operation>();
  to.add<sparse_product_gradient_operation>();
}

} // namespace mailgrad
