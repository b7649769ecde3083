#include <mailgrad/graph/operations/softmax.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/onnx_nodes.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/kernels/softmax.hpp>
#include <mailgrad/tensor/error.hpp>

namespace mailgrad {

namespace {

/// Rows along the last axis.
struct row_grid {
  explicit row_grid(const shape& s) : columns(s.back()), rows(columns == 0 ? 0 : s.size() / columns) {}
  std::size_t columns, rows;
};

void require_rows(const value_type& x) {
  if (x.type != dtype::float32) throw shape_error("expected float32");
  if (x.dims.rank() == 0) throw shape_error("a scalar has no axis to sum over");
}

class softmax_executable : public executable {
public:
  explicit softmax_executable(const shape& x) : grid_(x) {}
  void run(const stream& s, const call& c) override {
    softmax(s, c.in(0), c.out(), grid_.rows, grid_.columns);
  }

private:
  row_grid grid_;
};

class softmax_gradient_executable : public executable {
public:
  explicit softmax_gradient_executable(const shape& y) : grid_(y) {}
  void run(const stream& s, const call& c) override {
    softmax_gradient(s, c.in(0), c.in(1), c.out(), grid_.rows, grid_.columns);
  }

private:
  row_grid grid_;
};

/// Inputs: the result y of softmax, its gradient dy. Output: the gradient of x.
class softmax_gradient_operation : public operation, public travelling<softmax_gradient_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "softmax_gradient"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
    require_rows(inputs[0]);
    if (inputs[1] != inputs[0]) throw shape_error("expected the gradient of the result");
    return {inputs[1]};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<softmax_gradient_executable>(inputs[0].dims);
  }
  std::optional<std::size_t> overwrites() const noexcept override { return 1; }
};

class softmax_operation : public operation, public onnx_form, public travelling<softmax_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "softmax"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 1);
    require_rows(inputs[0]);
    return {inputs[0]};
  }
  std::vector<adjoint> gradient(std::span<const value>, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    graph& model = outputs[0].owner();
    return {model.apply_one(std::make_shared<softmax_gradient_operation>(), {outputs[0], *dy[0]},
                            model.of(outputs[0]).where)};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<softmax_executable>(inputs[0].dims);
  }
  std::vector<std::string> to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                   std::span<const onnx_value>) const override {
    return {to.add("Softmax", {inputs[0].name}, {{"axis", -1}})};
  }
  std::optional<std::size_t> overwrites() const noexcept override { return 0; }
};

} // namespace

value softmax(const value& x, std::source_location where) {
  return x.owner(where).apply_one(std::make_shared<softmax_operation>(), {x}, where);
}

void add_softmax_kinds(operation_registry& to) {
  to.add<softmax_operation>();
  to.add<softmax_gradient_operation>();
}

} // namespace mailgrad
