#include <mailgrad/graph/operations/elementwise.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
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

} // namespace mailgrad
