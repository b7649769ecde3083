#include <mailgrad/graph/operations/arithmetic.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operations/elementwise.hpp>
#include <mailgrad/graph/operations/reductions.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

using inputs_of = std::span<const value>;

/// Sums a part of the gradient over the axes along which the operand was repeated.
adjoint part(const value& d, const value& operand, const located& y) {
  return sum_to(d, operand.dims(), y.where);
}

value binary(std::string_view name, elementwise_function f, elementwise_operation::gradient_rule rule,
             const located& a, const located& b) {
  return a.what.owner(a.where).apply_one(std::make_shared<elementwise_operation>(name, f, rule),
                                         {a.what, b.what}, a.where);
}

located constant(float scalar, const located& beside) {
  return {beside.what.owner(beside.where).constant(scalar, beside.where), beside.where};
}

value negate(const located& x) {
  const auto rule = [](inputs_of, const located&, const located& dy) -> std::vector<adjoint> {
    return {-dy};
  };
  return x.what.owner(x.where).apply_one(
      std::make_shared<elementwise_operation>("negate", elementwise_function::negate, rule), {x.what},
      x.where);
}

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
    require_bias(inputs);
    return elementwise_operation::infer(inputs);
  }
};

/// Inputs: y, dy. Outputs: dz, and its sum over rows.
class bias_relu_gradient_operation : public operation {
public:
  std::string_view name() const noexcept override { return "bias_relu_gradient"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    return {inputs[0], {{inputs[0].dims.back()}, dtype::float32}};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs,
                                      std::span<const value_type>) const override;
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
                                                                  std::span<const value_type>) const {
  return std::make_unique<bias_relu_gradient_executable>(inputs[0].dims);
}

std::vector<adjoint> add_rule(inputs_of in, const located& y, const located& dy) {
  return {part(dy.what, in[0], y), part(dy.what, in[1], y)};
}

} // namespace

value add(const located& a, const located& b) {
  return binary("add", elementwise_function::add, add_rule, a, b);
}

value subtract(const located& a, const located& b) {
  const auto rule = [](inputs_of in, const located& y, const located& dy) -> std::vector<adjoint> {
    return {part(dy.what, in[0], y), negate({sum_to(dy.what, in[1].dims(), y.where), y.where})};
  };
  return binary("subtract", elementwise_function::subtract, rule, a, b);
}

value multiply(const located& a, const located& b) {
  const auto rule = [](inputs_of in, const located& y, const located& dy) -> std::vector<adjoint> {
    return {part(multiply(dy, {in[1], y.where}), in[0], y), part(multiply(dy, {in[0], y.where}), in[1], y)};
  };
  return binary("multiply", elementwise_function::multiply, rule, a, b);
}

value divide(const located& a, const located& b) {
  const auto rule = [](inputs_of in, const located& y, const located& dy) -> std::vector<adjoint> {
    const located da{divide(dy, {in[1], y.where}), y.where};
    return {part(da.what, in[0], y), part(negate({multiply(da, y), y.where}), in[1], y)};
  };
  return binary("divide", elementwise_function::divide, rule, a, b);
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
  return x.owner(where).apply_one(
      std::make_shared<bias_operation>("add_bias", elementwise_function::add, add_rule), {x, b}, where);
}

value bias_relu(const value& x, const value& b, std::source_location where) {
  const auto rule = [](inputs_of, const located& y, const located& dy) -> std::vector<adjoint> {
    const auto parts =
        y.what.owner().apply(std::make_shared<bias_relu_gradient_operation>(), {y.what, dy.what}, y.where);
    return {parts[0], parts[1]};
  };
  return x.owner(where).apply_one(
      std::make_shared<bias_operation>("bias_relu", elementwise_function::relu_of_sum, rule), {x, b}, where);
}

} // namespace mailgrad
