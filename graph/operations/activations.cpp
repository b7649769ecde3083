#include <mailgrad/graph/operations/activations.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations/arithmetic.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/graph/operations/elementwise.hpp>

#include <array>

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

} // namespace mailgrad
