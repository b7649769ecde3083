#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/elementwise.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <algorithm>
#include <iterator>
#include <tuple>

namespace mailgrad {
namespace {

elementwise_chain::extent extent_of(const value_type& operand) {
  return operand.dims.size() == 1 ? elementwise_chain::extent::one : elementwise_chain::extent::full;
}

elementwise_chain chain_of(elementwise_function f, std::span<const value_type> inputs) {
  elementwise_chain chain;
  chain.input_count = static_cast<std::uint8_t>(inputs.size());
  std::ranges::transform(inputs, chain.inputs.begin(), extent_of);
  chain.step_count = 1;
  chain.steps[0] = {f, 0, static_cast<std::uint8_t>(inputs.size() - 1), 0};
  return chain;
}

class chain_executable : public executable {
public:
  chain_executable(const elementwise_chain& chain, std::size_t n, device_kind where)
      : chain_(chain), n_(n), scratch_bytes_(where == device_kind::cpu ? chain.scratch_bytes() : 0) {}

  std::size_t scratch_bytes() const noexcept override { return scratch_bytes_; }
  void run(const stream& s, const call& c) override {
    elementwise(s, chain_, c.inputs, c.outputs, n_, c.scratch);
  }
  /// A sum of two operands of one row, or of a column and one number.
  std::optional<row_bias> as_row_bias() const noexcept override {
    using enum elementwise_chain::extent;
    const bool sum = chain_.input_count == 2 && chain_.step_count == 1 &&
                     chain_.steps[0].function == elementwise_function::add && chain_.steps[0].a == 0 &&
                     chain_.steps[0].b == 1;
    if (!sum || chain_.inputs[0] != full) return std::nullopt;
    return row_bias{chain_.inputs[1] == full ? n_ : 1};
  }

private:
  elementwise_chain chain_;
  std::size_t n_, scratch_bytes_;
};

class broadcast_executable : public executable {
public:
  broadcast_executable(elementwise_function f, const broadcast_plan& plan) : function_(f), plan_(plan) {}

  void run(const stream& s, const call& c) override {
    broadcast(s, function_, plan_, c.in(0), c.in(1), c.out());
  }
  std::optional<row_bias> as_row_bias() const noexcept override {
    const bool rows = plan_.rank == 2 && plan_.a[0] == plan_.extents[1] && plan_.a[1] == 1 &&
                      plan_.b[0] == 0 && plan_.b[1] == 1;
    if (!rows || function_ != elementwise_function::add) return std::nullopt;
    return row_bias{plan_.extents[1]};
  }

private:
  elementwise_function function_;
  broadcast_plan plan_;
};

/// Adds nodes of ONNX for gelu(x), by the error function; returns the name of the result.
std::string gelu_in(onnx_nodes& to, const std::string& x) {
  const std::string scaled = to.add("Mul", {x, to.number(std::sqrt(0.5F))});
  const std::string twice = to.add("Add", {to.add("Erf", {scaled}), to.number(1)});
  return to.add("Mul", {to.add("Mul", {x, to.number(0.5F)}), twice});
}

using fn = elementwise_function;

/// Adds the operation of a function, which is one of `kinds`.
template <class Kinds>
value apply_one_of(const Kinds& kinds, fn f, std::vector<value> operands, const std::source_location& where) {
  graph& model = operands[0].owner(where);
  return model.apply_one(made(*std::ranges::find(kinds, f, &elementwise_kind::function)), std::move(operands),
                         where);
}

/// The functions of gradients cannot be differentiated again.
constexpr std::array gradient_kinds{elementwise_kind{"relu_gradient", fn::relu_gradient},
                                    elementwise_kind{"gelu_gradient", fn::gelu_gradient},
                                    elementwise_kind{"tanh_gradient", fn::tanh_gradient},
                                    elementwise_kind{"sigmoid_gradient", fn::sigmoid_gradient},
                                    elementwise_kind{"square_gradient", fn::square_gradient},
                                    elementwise_kind{"sqrt_gradient", fn::sqrt_gradient}};

/// Adds the nodes of the gradient with respect to each input, given the result and its gradient.
using gradient_rule = std::vector<adjoint> (*)(value_list inputs, const located& y, const located& dy);

struct differentiable_kind : elementwise_kind {
  gradient_rule rule;
  std::vector<adjoint> gradient(const differentiated& d) const {
    const std::source_location where = d.where();
    return rule(d.inputs, {d.outputs[0], where}, {*d.dy[0], where});
  }
};

/// The gradient as a function of the result, or of the operand, and of dy.
template <fn Gradient>
std::vector<adjoint> by_result(value_list, const located& y, const located& dy) {
  return {apply_one_of(gradient_kinds, Gradient, {y.what, dy.what}, dy.where)};
}
template <fn Gradient>
std::vector<adjoint> by_operand(value_list in, const located&, const located& dy) {
  return {apply_one_of(gradient_kinds, Gradient, {in[0], dy.what}, dy.where)};
}

std::vector<adjoint> exp_rule(value_list, const located& y, const located& dy) { return {multiply(dy, y)}; }
std::vector<adjoint> log_rule(value_list in, const located& y, const located& dy) {
  return {divide(dy, {in[0], y.where})};
}

/// Sums a part of the gradient over the axes along which the operand was repeated.
adjoint part(const value& d, const value& operand, const located& y) {
  return sum_to(d, operand.dims(), y.where);
}

std::vector<adjoint> negate_rule(value_list, const located&, const located& dy) { return {-dy}; }
std::vector<adjoint> add_rule(value_list in, const located& y, const located& dy) {
  return {part(dy.what, in[0], y), part(dy.what, in[1], y)};
}
std::vector<adjoint> subtract_rule(value_list in, const located& y, const located& dy) {
  return {part(dy.what, in[0], y), -located(sum_to(dy.what, in[1].dims(), y.where), y.where)};
}
std::vector<adjoint> multiply_rule(value_list in, const located& y, const located& dy) {
  return {part(multiply(dy, {in[1], y.where}), in[0], y), part(multiply(dy, {in[0], y.where}), in[1], y)};
}
std::vector<adjoint> divide_rule(value_list in, const located& y, const located& dy) {
  const located da{divide(dy, {in[1], y.where}), y.where};
  return {part(da.what, in[0], y), part(-located(multiply(da, y), y.where), in[1], y)};
}

constexpr std::array element_kinds{
    differentiable_kind{{"relu", fn::relu}, by_result<fn::relu_gradient>},
    differentiable_kind{{"gelu", fn::gelu}, by_operand<fn::gelu_gradient>},
    differentiable_kind{{"tanh", fn::tanh}, by_result<fn::tanh_gradient>},
    differentiable_kind{{"sigmoid", fn::sigmoid}, by_result<fn::sigmoid_gradient>},
    differentiable_kind{{"exp", fn::exp}, exp_rule},
    differentiable_kind{{"log", fn::log}, log_rule},
    differentiable_kind{{"square", fn::square}, by_operand<fn::square_gradient>},
    differentiable_kind{{"sqrt", fn::sqrt}, by_result<fn::sqrt_gradient>},
    differentiable_kind{{"negate", fn::negate}, negate_rule},
    differentiable_kind{{"add", fn::add}, add_rule},
    differentiable_kind{{"subtract", fn::subtract}, subtract_rule},
    differentiable_kind{{"multiply", fn::multiply}, multiply_rule},
    differentiable_kind{{"divide", fn::divide}, divide_rule},
};

value apply(fn f, std::vector<value> operands, const std::source_location& where) {
  return apply_one_of(element_kinds, f, std::move(operands), where);
}

located constant(float scalar, const located& beside) {
  return {beside.what.owner(beside.where).constant(scalar, beside.where), beside.where};
}

/// A matrix, and what its kernel makes of it and of its gradient.
std::vector<value_type> gradients_of_bias(type_list inputs, const char* expected) {
  if (inputs[0].type != dtype::float32 || inputs[0].dims.rank() == 0 || inputs[1] != inputs[0])
    throw shape_error(expected);
  return {inputs[0], {{inputs[0].dims.back()}, dtype::float32}};
}

/// Inputs: y, dy. Outputs: dz, and its sum over rows.
struct bias_relu_gradient_kind {
  static constexpr std::string_view name = "bias_relu_gradient";
  static constexpr std::size_t operands = 2, overwritten = 1;
  std::vector<value_type> infer(type_list inputs) const {
    return gradients_of_bias(inputs, "expected the result and its gradient");
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel([x = row_grid(t.inputs[0].dims)](const stream& s, const call& c) {
      bias_relu_gradient(s, c.in(0), c.in(1), c.out(0), c.out(1), x.rows, x.columns);
    });
  }
};

std::vector<adjoint> bias_relu_rule(value_list, const located& y, const located& dy) {
  const auto parts = y.what.owner().apply(made(bias_relu_gradient_kind()), {y.what, dy.what}, y.where);
  return {parts[0], parts[1]};
}

/// Adds a bias to each row, or does so and applies relu.
struct bias_kind : differentiable_kind {
  std::vector<value_type> infer(type_list inputs) const {
    require_operand_count(inputs, 2);
    const shape &x = inputs[0].dims, &b = inputs[1].dims;
    if (b.rank() != 1) fail_with<shape_error>("the bias has rank {}, not 1", b.rank());
    if (x.rank() == 0 || x.back() != b[0])
      fail_with<shape_error>("the bias has {} elements, a row of x has {}", b[0],
                             x.rank() == 0 ? "none" : std::to_string(x.back()));
    return elementwise_kind::infer(inputs);
  }
};

constexpr bias_kind add_bias_kind{{{"add_bias", fn::add}, add_rule}};
constexpr bias_kind bias_relu_kind{{{"bias_relu", fn::relu_of_sum}, bias_relu_rule}};

/// Inputs: slope, dy. Outputs: dz, and its sum over rows.
struct bias_gelu_gradient_kind {
  static constexpr std::string_view name = "bias_gelu_gradient";
  static constexpr std::size_t operands = 2, overwritten = 1;
  std::vector<value_type> infer(type_list inputs) const {
    return gradients_of_bias(inputs, "expected the slope and the gradient of the result");
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel({.operands = 0b11, .results = 1},
                  [x = row_grid(t.inputs[0].dims)](const stream& s, const call& c, const auto& numbers) {
                    bias_gelu_gradient(s, numbers.operand(c, 0), numbers.operand(c, 1), numbers.result(c, 0),
                                       c.out(1), x.rows, x.columns);
                  });
  }
};

/// Outputs: the result, and the slope, which only the gradient reads.
struct bias_gelu_kind {
  static constexpr std::string_view name = "bias_gelu";
  static constexpr std::size_t operands = 2, overwritten = 0;
  std::vector<value_type> infer(type_list inputs) const {
    const auto& [x, b] = std::tie(inputs[0], inputs[1]);
    if (x.type != dtype::float32 || b.type != dtype::float32) throw shape_error("expected float32");
    if (x.dims.rank() == 0 || b.dims != shape{x.dims.back()})
      throw shape_error("the bias must be as long as a row of x");
    return {x, x};
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    const auto parts = d.apply(made(bias_gelu_gradient_kind()), {d.outputs[1], *d.dy[0]});
    return {parts.begin(), parts.end()};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel({.operands = 1, .results = 0b11},
                  [x = row_grid(t.inputs[0].dims)](const stream& s, const call& c, const auto& numbers) {
                    bias_gelu(s, numbers.operand(c, 0), c.in(1), numbers.result(c, 0), numbers.result(c, 1),
                              x.rows, x.columns);
                  });
  }
  std::vector<std::string> to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list) const {
    return {gelu_in(to, to.add("Add", {inputs[0].name, inputs[1].name}))};
  }
};

struct dropout_kind {
  static constexpr std::string_view name = "dropout";
  static constexpr std::size_t operands = 1, overwritten = 0;
  float rate = 0;
  std::uint64_t seed = 0;
  void keep(archive& a) { keep_attributes(a, "rate", rate, "seed", seed); }
  std::vector<value_type> infer(type_list inputs) const {
    if (inputs[0].type != dtype::float32) throw shape_error("elements must be float32");
    if (!(rate >= 0 && rate < 1))
      fail_with<shape_error>("the rate must be at least 0 and below 1, not {:f}", rate);
    return {inputs[0]};
  }
  /// The gradient of an element is multiplied by the same 0 or 1 / (1 - rate) as the element. So it is the
  /// same operation.
  std::vector<adjoint> gradient(const differentiated& d) const {
    return {d.apply(made(*this), {*d.dy[0]}).front()};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel([*this, size = t.inputs[0].dims.size()](const stream& s, const call& c) {
      mailgrad::dropout(s, {rate, seed, c.step}, c.in(0), c.out(), size);
    });
  }
  std::string describe() const { return fmt::format("rate {}, seed {}", exact_text(rate), seed); }
};

} // namespace

shape broadcast_shapes(const shape& a, const shape& b) {
  shape result = a.rank() >= b.rank() ? a : b;
  const shape& other = a.rank() >= b.rank() ? b : a;
  const std::size_t missing = result.rank() - other.rank();
  for (std::size_t i = 0; i < other.rank(); ++i) {
    std::size_t& extent = result[missing + i];
    if (extent == other[i] || other[i] == 1) continue;
    if (extent != 1)
      fail_with<shape_error>("extents {} and {} differ and neither is 1", a[a.rank() - other.rank() + i],
                             b[b.rank() - other.rank() + i]);
    extent = other[i];
  }
  return result;
}

std::vector<value_type> elementwise_kind::infer(type_list inputs) const {
  require_operand_count(inputs, is_unary(function) ? 1 : 2);
  shape dims = inputs[0].dims;
  for (const value_type& t : inputs) {
    if (t.type != dtype::float32) throw shape_error("expected float32");
    dims = broadcast_shapes(dims, t.dims);
  }
  return {{dims, dtype::float32}};
}

std::unique_ptr<executable> elementwise_kind::prepare(const fixed_types& t) const {
  const shape& result = t.outputs[0].dims;
  const bool simple = std::ranges::all_of(
      t.inputs, [&](const value_type& x) { return x.dims.size() == result.size() || x.dims.size() == 1; });
  if (simple) return make_executable(chain_of(function, t.inputs), result.size(), t.where);
  return std::make_unique<broadcast_executable>(function,
                                                plan_broadcast(t.inputs[0].dims, t.inputs[1].dims, result));
}

std::vector<std::string> elementwise_kind::to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list) const {
  using enum elementwise_function;
  std::vector<std::string> names;
  std::ranges::transform(inputs, std::back_inserter(names), &onnx_value::name);
  if (function == gelu) return {gelu_in(to, names[0])};
  if (function == square) return {to.add("Mul", {names[0], names[0]})};
  if (function == relu_of_sum) return {to.add("Relu", {to.add("Add", names)})};
  constexpr std::array<std::pair<elementwise_function, const char*>, 12> types{
      {{copy, "Identity"},
       {negate, "Neg"},
       {relu, "Relu"},
       {elementwise_function::tanh, "Tanh"},
       {sigmoid, "Sigmoid"},
       {elementwise_function::exp, "Exp"},
       {elementwise_function::log, "Log"},
       {elementwise_function::sqrt, "Sqrt"},
       {add, "Add"},
       {subtract, "Sub"},
       {multiply, "Mul"},
       {divide, "Div"}}};
  const auto found = std::ranges::find(types, function, [](const auto& t) { return t.first; });
  if (found == types.end()) return {};
  return {to.add(found->second, std::move(names))};
}

std::unique_ptr<executable> make_executable(const elementwise_chain& chain, std::size_t n,
                                            device_kind where) {
  return std::make_unique<chain_executable>(chain, n, where);
}

value relu(const value& x, std::source_location where) { return apply(fn::relu, {x}, where); }
value gelu(const value& x, std::source_location where) { return apply(fn::gelu, {x}, where); }
value tanh(const value& x, std::source_location where) { return apply(fn::tanh, {x}, where); }
value sigmoid(const value& x, std::source_location where) { return apply(fn::sigmoid, {x}, where); }
value exp(const value& x, std::source_location where) { return apply(fn::exp, {x}, where); }
value log(const value& x, std::source_location where) { return apply(fn::log, {x}, where); }
value square(const value& x, std::source_location where) { return apply(fn::square, {x}, where); }
value sqrt(const value& x, std::source_location where) { return apply(fn::sqrt, {x}, where); }
value add(const located& a, const located& b) { return apply(fn::add, {a.what, b.what}, a.where); }
value subtract(const located& a, const located& b) { return apply(fn::subtract, {a.what, b.what}, a.where); }
value multiply(const located& a, const located& b) { return apply(fn::multiply, {a.what, b.what}, a.where); }
value divide(const located& a, const located& b) { return apply(fn::divide, {a.what, b.what}, a.where); }
value operator+(const located& a, float b) { return add(a, constant(b, a)); }
value operator-(const located& a, float b) { return subtract(a, constant(b, a)); }
value operator*(const located& a, float b) { return multiply(a, constant(b, a)); }
value operator/(const located& a, float b) { return divide(a, constant(b, a)); }
value operator+(float a, const located& b) { return add(constant(a, b), b); }
value operator-(float a, const located& b) { return subtract(constant(a, b), b); }
value operator*(float a, const located& b) { return multiply(constant(a, b), b); }
value operator/(float a, const located& b) { return divide(constant(a, b), b); }
value operator-(const located& a) { return apply(fn::negate, {a.what}, a.where); }

value add_bias(const value& x, const value& b, std::source_location where) {
  return x.owner(where).apply_one(made(add_bias_kind), {x, b}, where);
}
value bias_relu(const value& x, const value& b, std::source_location where) {
  return x.owner(where).apply_one(made(bias_relu_kind), {x, b}, where);
}
value bias_gelu(const value& x, const value& b, std::source_location where) {
  return x.owner(where).apply_one(made(bias_gelu_kind()), {x, b}, where);
}
value dropout(const value& x, float rate, std::uint64_t seed, std::source_location where) {
  return x.owner(where).apply_one(made(dropout_kind{rate, seed}), {x}, where);
}

void add_elementwise_kinds(operation_registry& to) {
  for (const elementwise_kind& kind : gradient_kinds) add_kinds(to, kind);
  for (const differentiable_kind& kind : element_kinds) add_kinds(to, kind);
  add_kinds(to, add_bias_kind, bias_relu_kind, bias_relu_gradient_kind(), bias_gelu_kind(),
            bias_gelu_gradient_kind(), dropout_kind());
}

} // namespace mailgrad
