#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/onnx_nodes.hpp>
#include <mailgrad/graph/operation.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/graph/operations/elementwise.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

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

} // namespace

const elementwise_kind& kind_named(std::string_view name, std::span<const elementwise_kind> kinds) {
  return *std::ranges::find(kinds, name, &elementwise_kind::name);
}

shape broadcast_shapes(const shape& a, const shape& b) {
  shape result = a.rank() >= b.rank() ? a : b;
  const shape& other = a.rank() >= b.rank() ? b : a;
  const std::size_t missing = result.rank() - other.rank();
  for (std::size_t i = 0; i < other.rank(); ++i) {
    std::size_t& extent = result[missing + i];
    if (extent == other[i] || other[i] == 1) continue;
    if (extent != 1)
      throw shape_error(fmt::format("extents {} and {} differ and neither is 1",
                                    a[a.rank() - other.rank() + i], b[b.rank() - other.rank() + i]));
    extent = other[i];
  }
  return result;
}

std::vector<value_type> elementwise_operation::infer(std::span<const value_type> inputs) const {
  require_operand_count(inputs, is_unary(function_) ? 1 : 2);
  shape dims = inputs[0].dims;
  for (const value_type& t : inputs) {
    if (t.type != dtype::float32) throw shape_error("expected float32");
    dims = broadcast_shapes(dims, t.dims);
  }
  return {{dims, dtype::float32}};
}

std::vector<adjoint> elementwise_operation::gradient(std::span<const value> inputs,
                                                     std::span<const value> outputs,
                                                     std::span<const std::optional<value>> dy) const {
  if (!rule_) return operation::gradient(inputs, outputs, dy);
  const std::source_location where = outputs[0].owner().of(outputs[0]).where;
  return rule_(inputs, {outputs[0], where}, {*dy[0], where});
}

std::unique_ptr<executable> elementwise_operation::prepare(std::span<const value_type> inputs,
                                                           std::span<const value_type> outputs,
                                                           device_kind where) const {
  const shape& result = outputs[0].dims;
  const bool simple = std::ranges::all_of(
      inputs, [&](const value_type& t) { return t.dims.size() == result.size() || t.dims.size() == 1; });
  if (simple) return make_executable(chain_of(function_, inputs), result.size(), where);
  return std::make_unique<broadcast_executable>(function_,
                                                plan_broadcast(inputs[0].dims, inputs[1].dims, result));
}

std::vector<std::string> elementwise_operation::to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                                        std::span<const onnx_value>) const {
  using enum elementwise_function;
  std::vector<std::string> names;
  std::ranges::transform(inputs, std::back_inserter(names), &onnx_value::name);
  if (function_ == gelu) return {gelu_in(to, names[0])};
  if (function_ == square) return {to.add("Mul", {names[0], names[0]})};
  if (function_ == relu_of_sum) return {to.add("Relu", {to.add("Add", names)})};
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
  const auto found = std::ranges::find(types, function_, [](const auto& t) { return t.first; });
  if (found == types.end()) return {};
  return {to.add(found->second, std::move(names))};
}

std::string gelu_in(onnx_nodes& to, const std::string& x) {
  const std::string scaled = to.add("Mul", {x, to.number(std::sqrt(0.5F))});
  const std::string twice = to.add("Add", {to.add("Erf", {scaled}), to.number(1)});
  return to.add("Mul", {to.add("Mul", {x, to.number(0.5F)}), twice});
}

/// The result may overwrite the first operand. A function that computes a gradient overwrites dy, the second.
std::optional<std::size_t> elementwise_operation::overwrites() const noexcept {
  return function_ >= elementwise_function::relu_gradient ? 1 : 0;
}

std::unique_ptr<executable> make_executable(const elementwise_chain& chain, std::size_t n,
                                            device_kind where) {
  return std::make_unique<chain_executable>(chain, n, where);
}

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

namespace {

class dropout_executable : public executable {
public:
  dropout_executable(float rate, std::uint64_t seed, std::size_t size)
      : rate_(rate), seed_(seed), size_(size) {}
  void run(const stream& s, const call& c) override {
    mailgrad::dropout(s, {rate_, seed_, c.step}, c.in(0), c.out(), size_);
  }

private:
  float rate_;
  std::uint64_t seed_;
  std::size_t size_;
};

class dropout_operation : public operation,
                          public travelling<dropout_operation>,
                          public std::enable_shared_from_this<dropout_operation> {
public:
  dropout_operation() = default;
  dropout_operation(float rate, std::uint64_t seed) : rate_(rate), seed_(seed) {}
  void keep(archive& a) {
    a.version(1);
    a.field("rate", rate_);
    a.field("seed", seed_);
  }

  std::string_view name() const noexcept override { return "dropout"; }

  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 1);
    if (inputs[0].type != dtype::float32) throw shape_error("elements must be float32");
    if (!(rate_ >= 0 && rate_ < 1))
      throw shape_error(fmt::format("the rate must be at least 0 and below 1, not {:f}", rate_));
    return {inputs[0]};
  }

  /// The gradient of an element is multiplied by the same 0 or 1 / (1 - rate) as the element. So it is the
  /// same operation.
  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    graph& model = inputs[0].owner();
    return {model.apply_one(shared_from_this(), {*dy[0]}, model.of(outputs[0]).where)};
  }

  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<dropout_executable>(rate_, seed_, inputs[0].dims.size());
  }

  std::optional<std::size_t> overwrites() const noexcept override { return 0; }

  std::string describe() const override { return fmt::format("rate {}, seed {}", exact_text(rate_), seed_); }

private:
  float rate_ = 0;
  std::uint64_t seed_ = 0;
};

} // namespace

value dropout(const value& x, float rate, std::uint64_t seed, std::source_location where) {
  return x.owner(where).apply_one(std::make_shared<dropout_operation>(rate, seed), {x}, where);
}

void add_dropout_kinds(operation_registry& to) { to.add<dropout_operation>(); }

} // namespace mailgrad
