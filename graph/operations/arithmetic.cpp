#include <mailgrad/graph/operations.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/graph/operations/elementwise.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <array>

namespace mailgrad {

namespace {

using inputs_of = std::span<const value>;

/// Sums a part of the gradient over the axes along which the operand was repeated.
adjoint part(const value& d, const value& operand, const located& y) {
  return sum_to(d, operand.dims(), y.where);
}

/// Adds a node of one of the kinds below.
value apply_arithmetic(std::string_view name, std::vector<value> operands, const std::source_location& where);

located constant(float scalar, const located& beside) {
  return {beside.what.owner(beside.where).constant(scalar, beside.where), beside.where};
}

value negate(const located& x) { return apply_arithmetic("negate", {x.what}, x.where); }

void require_bias(std::span<const value_type> inputs) {
  const shape &x = inputs[0].dims, &b = inputs[1].dims;
  if (b.rank() != 1) throw shape_error(fmt::format("the bias has rank {}, not 1", b.rank()));
  if (x.rank() == 0 || x.back() != b[0])
    throw shape_error(fmt::format("the bias has {} elements, a row of x has {}", b[0],
                                  x.rank() == 0 ? "none" : std::to_string(x.back())));
}

/// Adds a bias to each row, or does so and applies relu.
class bias_operation : public elementwise_operation {
public:
  using elementwise_operation::elementwise_operation;
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
    require_bias(inputs);
    return elementwise_operation::infer(inputs);
  }
};

/// Inputs: y, dy. Outputs: dz, and its sum over rows.
class bias_relu_gradient_operation : public operation, public travelling<bias_relu_gradient_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "bias_relu_gradient"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
    if (inputs[0].type != dtype::float32 || inputs[0].dims.rank() == 0 || inputs[1] != inputs[0])
      throw shape_error("expected the result and its gradient");
    return {inputs[0], {{inputs[0].dims.back()}, dtype::float32}};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override;
  std::optional<std::size_t> overwrites() const noexcept override { return 1; }
};

class bias_relu_gradient_executable : public executable {
public:
  explicit bias_relu_gradient_executable(const shape& x)
      : columns_(x.back()), rows_(columns_ == 0 ? 0 : x.size() / columns_) {}
  void run(const stream& s, const call& c) override {
    bias_relu_gradient(s, c.in(0), c.in(1), c.out(0), c.out(1), rows_, columns_);
  }

private:
  std::size_t columns_, rows_;
};

std::unique_ptr<executable> bias_relu_gradient_operation::prepare(std::span<const value_type> inputs,
                                                                  std::span<const value_type>,
                                                                  device_kind) const {
  return std::make_unique<bias_relu_gradient_executable>(inputs[0].dims);
}

std::vector<adjoint> negate_rule(inputs_of, const located&, const located& dy) { return {-dy}; }

std::vector<adjoint> add_rule(inputs_of in, const located& y, const located& dy) {
  return {part(dy.what, in[0], y), part(dy.what, in[1], y)};
}

std::vector<adjoint> subtract_rule(inputs_of in, const located& y, const located& dy) {
  return {part(dy.what, in[0], y), negate({sum_to(dy.what, in[1].dims(), y.where), y.where})};
}

std::vector<adjoint> multiply_rule(inputs_of in, const located& y, const located& dy) {
  return {part(multiply(dy, {in[1], y.where}), in[0], y), part(multiply(dy, {in[0], y.where}), in[1], y)};
}

std::vector<adjoint> divide_rule(inputs_of in, const located& y, const located& dy) {
  const located da{divide(dy, {in[1], y.where}), y.where};
  return {part(da.what, in[0], y), part(negate({multiply(da, y), y.where}), in[1], y)};
}

std::vector<adjoint> bias_relu_rule(inputs_of, const located& y, const located& dy) {
  const auto parts =
      y.what.owner().apply(std::make_shared<bias_relu_gradient_operation>(), {y.what, dy.what}, y.where);
  return {parts[0], parts[1]};
}

constexpr std::array arithmetic_kinds{
    elementwise_kind{"negate", elementwise_function::negate, negate_rule},
    elementwise_kind{"add", elementwise_function::add, add_rule},
    elementwise_kind{"subtract", elementwise_function::subtract, subtract_rule},
    elementwise_kind{"multiply", elementwise_function::multiply, multiply_rule},
    elementwise_kind{"divide", elementwise_function::divide, divide_rule},
};

constexpr std::array bias_kinds{
    elementwise_kind{"add_bias", elementwise_function::add, add_rule},
    elementwise_kind{"bias_relu", elementwise_function::relu_of_sum, bias_relu_rule},
};

value apply_arithmetic(std::string_view name, std::vector<value> operands,
                       const std::source_location& where) {
  graph& model = operands[0].owner(where);
  return model.apply_one(std::make_shared<elementwise_operation>(kind_named(name, arithmetic_kinds)),
                         std::move(operands), where);
}

value apply_bias_kind(std::string_view name, const value& x, const value& b,
                      const std::source_location& where) {
  return x.owner(where).apply_one(std::make_shared<bias_operation>(kind_named(name, bias_kinds)), {x, b},
                                  where);
}

} // namespace

value add(const located& a, const located& b) { return apply_arithmetic("add", {a.what, b.what}, a.where); }
value subtract(const located& a, const located& b) {
  return apply_arithmetic("subtract", {a.what, b.what}, a.where);
}
value multiply(const located& a, const located& b) {
  return apply_arithmetic("multiply", {a.what, b.what}, a.where);
}
value divide(const located& a, const located& b) {
  return apply_arithmetic("divide", {a.what, b.what}, a.where);
}

value operator+(const located& a, float b) { return add(a, constant(b, a)); }
value operator-(const located& a, float b) { return subtract(a, constant(b, a)); }
value operator*(const located& a, float b) { return multiply(a, constant(b, a)); }
value operator/(const located& a, float b) { return divide(a, constant(b, a)); }
value operator+(float a, const located& b) { return add(constant(a, b), b); }
value operator-(float a, const located& b) { return subtract(constant(a, b), b); }
value operator*(float a, const located& b) { return multiply(constant(a, b), b); }
value operator/(float a, const located& b) { return divide(constant(a, b), b); }
value operator-(const located& a) { return negate(a); }

value add_bias(const value& x, const value& b, std::source_location where) {
  return apply_bias_kind("add_bias", x, b, where);
}

value bias_relu(const value& x, const value& b, std::source_location where) {
  return apply_bias_kind("bias_relu", x, b, where);
}

void add_arithmetic_kinds(operation_registry& to) {
  for (const elementwise_kind& kind : arithmetic_kinds) to.add(elementwise_operation(kind));
  for (const elementwise_kind& kind : bias_kinds) to.add(bias_operation(kind));
  to.add<bias_relu_gradient_operation>();
}

} // namespace mailgrad
