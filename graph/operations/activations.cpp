#include <mailgrad/graph/bfloat16_form.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/onnx_nodes.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/graph/operations/elementwise.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/tensor/error.hpp>

#include <array>
#include <tuple>

namespace mailgrad {

namespace {

using inputs_of = std::span<const value>;

/// Adds a node of one of the kinds below.
value apply_activation(std::string_view name, std::vector<value> operands, const std::source_location& where);

value gradient_node(std::string_view name, const value& a, const located& dy) {
  return apply_activation(name, {a, dy.what}, dy.where);
}

std::vector<adjoint> relu_rule(inputs_of, const located& y, const located& dy) {
  return {gradient_node("relu_gradient", y.what, dy)};
}
std::vector<adjoint> gelu_rule(inputs_of in, const located&, const located& dy) {
  return {gradient_node("gelu_gradient", in[0], dy)};
}
std::vector<adjoint> tanh_rule(inputs_of, const located& y, const located& dy) {
  return {gradient_node("tanh_gradient", y.what, dy)};
}
std::vector<adjoint> sigmoid_rule(inputs_of, const located& y, const located& dy) {
  return {gradient_node("sigmoid_gradient", y.what, dy)};
}
std::vector<adjoint> exp_rule(inputs_of, const located& y, const located& dy) { return {multiply(dy, y)}; }
std::vector<adjoint> log_rule(inputs_of in, const located& y, const located& dy) {
  return {divide(dy, {in[0], y.where})};
}
std::vector<adjoint> square_rule(inputs_of in, const located&, const located& dy) {
  return {gradient_node("square_gradient", in[0], dy)};
}
std::vector<adjoint> sqrt_rule(inputs_of, const located& y, const located& dy) {
  return {gradient_node("sqrt_gradient", y.what, dy)};
}

/// The functions of gradients cannot be differentiated again.
constexpr std::array activation_kinds{
    elementwise_kind{"relu", elementwise_function::relu, relu_rule},
    elementwise_kind{"gelu", elementwise_function::gelu, gelu_rule},
    elementwise_kind{"tanh", elementwise_function::tanh, tanh_rule},
    elementwise_kind{"sigmoid", elementwise_function::sigmoid, sigmoid_rule},
    elementwise_kind{"exp", elementwise_function::exp, exp_rule},
    elementwise_kind{"log", elementwise_function::log, log_rule},
    elementwise_kind{"square", elementwise_function::square, square_rule},
    elementwise_kind{"sqrt", elementwise_function::sqrt, sqrt_rule},
    elementwise_kind{"relu_gradient", elementwise_function::relu_gradient, nullptr},
    elementwise_kind{"gelu_gradient", elementwise_function::gelu_gradient, nullptr},
    elementwise_kind{"tanh_gradient", elementwise_function::tanh_gradient, nullptr},
    elementwise_kind{"sigmoid_gradient", elementwise_function::sigmoid_gradient, nullptr},
    elementwise_kind{"square_gradient", elementwise_function::square_gradient, nullptr},
    elementwise_kind{"sqrt_gradient", elementwise_function::sqrt_gradient, nullptr},
};

value apply_activation(std::string_view name, std::vector<value> operands,
                       const std::source_location& where) {
  graph& model = operands[0].owner(where);
  return model.apply_one(std::make_shared<elementwise_operation>(kind_named(name, activation_kinds)),
                         std::move(operands), where);
}

} // namespace

value relu(const value& x, std::source_location where) { return apply_activation("relu", {x}, where); }
value gelu(const value& x, std::source_location where) { return apply_activation("gelu", {x}, where); }
value tanh(const value& x, std::source_location where) { return apply_activation("tanh", {x}, where); }
value sigmoid(const value& x, std::source_location where) { return apply_activation("sigmoid", {x}, where); }
value exp(const value& x, std::source_location where) { return apply_activation("exp", {x}, where); }
value log(const value& x, std::source_location where) { return apply_activation("log", {x}, where); }
value square(const value& x, std::source_location where) { return apply_activation("square", {x}, where); }
value sqrt(const value& x, std::source_location where) { return apply_activation("sqrt", {x}, where); }

void add_activation_kinds(operation_registry& to) {
  for (const elementwise_kind& kind : activation_kinds) to.add(elementwise_operation(kind));
}

namespace {

struct rows_and_columns {
  explicit rows_and_columns(const shape& x)
      : columns(x.back()), rows(columns == 0 ? 0 : x.size() / columns) {}
  std::size_t columns, rows;
};

class bias_gelu_executable : public executable, public bfloat16_form {
public:
  explicit bias_gelu_executable(const shape& x) : x_(x) {}
  void run(const stream& s, const call& c) override {
    mailgrad::bias_gelu(s, operand(c, 0), c.in(1), result(c, 0), result(c, 1), x_.rows, x_.columns);
  }
  bool needs(std::size_t) const override { return false; }
  bool may_read(std::size_t i) const override { return i == 0; }
  bool may_write(std::size_t) const override { return true; }

private:
  rows_and_columns x_;
};

class bias_gelu_gradient_executable : public executable, public bfloat16_form {
public:
  explicit bias_gelu_gradient_executable(const shape& x) : x_(x) {}
  void run(const stream& s, const call& c) override {
    bias_gelu_gradient(s, operand(c, 0), operand(c, 1), result(c, 0), c.out(1), x_.rows, x_.columns);
  }
  bool needs(std::size_t) const override { return false; }
  bool may_read(std::size_t) const override { return true; }
  bool may_write(std::size_t i) const override { return i == 0; }

private:
  rows_and_columns x_;
};

/// Inputs: slope, dy. Outputs: dz, and its sum over rows.
class bias_gelu_gradient_operation : public operation, public travelling<bias_gelu_gradient_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "bias_gelu_gradient"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
    if (inputs[0].type != dtype::float32 || inputs[0].dims.rank() == 0 || inputs[1] != inputs[0])
      throw shape_error("expected the slope and the gradient of the result");
    return {inputs[0], {{inputs[0].dims.back()}, dtype::float32}};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<bias_gelu_gradient_executable>(inputs[0].dims);
  }
  std::optional<std::size_t> overwrites() const noexcept override { return 1; }
};

/// Outputs: the result, and the slope, which only the gradient reads.
class bias_gelu_operation : public operation, public onnx_form, public travelling<bias_gelu_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "bias_gelu"; }

  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
    const auto& [x, b] = std::tie(inputs[0], inputs[1]);
    if (x.type != dtype::float32 || b.type != dtype::float32) throw shape_error("expected float32");
    if (x.dims.rank() == 0 || b.dims != shape{x.dims.back()})
      throw shape_error("the bias must be as long as a row of x");
    return {x, x};
  }

  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    graph& model = inputs[0].owner();
    const auto parts = model.apply(std::make_shared<bias_gelu_gradient_operation>(), {outputs[1], *dy[0]},
                                   model.of(outputs[0]).where);
    return {parts.begin(), parts.end()};
  }

  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<bias_gelu_executable>(inputs[0].dims);
  }

  std::vector<std::string> to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                   std::span<const onnx_value>) const override {
    return {gelu_in(to, to.add("Add", {inputs[0].name, inputs[1].name}))};
  }

  std::optional<std::size_t> overwrites() const noexcept override { return 0; }
};

} // namespace

value bias_gelu(const value& x, const value& b, std::source_location where) {
  return x.owner(where).apply(std::make_shared<bias_gelu_operation>(), {x, b}, where).front();
}

void add_bias_gelu_kinds(operation_registry& to) {
  to.add<bias_gelu_operation>();
  to.add<bias_gelu_gradient_operation>();
}

} // namespace mailgrad
