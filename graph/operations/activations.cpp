#include <mailgrad/graph/operations/activations.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operations/arithmetic.hpp>
#include <mailgrad/graph/operations/elementwise.hpp>

namespace mailgrad {

namespace {

using inputs_of = std::span<const value>;

value unary(std::string_view name, elementwise_function f, elementwise_operation::gradient_rule rule,
            const value& x, const std::source_location& where) {
  return x.owner(where).apply_one(std::make_shared<elementwise_operation>(name, f, rule), {x}, where);
}

} // namespace

value relu(const value& x, std::source_location where) {
  const auto rule = [](inputs_of, const located& y, const located& dy) -> std::vector<adjoint> {
    return {apply_function("relu_gradient", elementwise_function::relu_gradient, y, dy)};
  };
  return unary("relu", elementwise_function::relu, rule, x, where);
}

value gelu(const value& x, std::source_location where) {
  const auto rule = [](inputs_of in, const located& y, const located& dy) -> std::vector<adjoint> {
    return {apply_function("gelu_gradient", elementwise_function::gelu_gradient, {in[0], y.where}, dy)};
  };
  return unary("gelu", elementwise_function::gelu, rule, x, where);
}

value tanh(const value& x, std::source_location where) {
  const auto rule = [](inputs_of, const located& y, const located& dy) -> std::vector<adjoint> {
    return {apply_function("tanh_gradient", elementwise_function::tanh_gradient, y, dy)};
  };
  return unary("tanh", elementwise_function::tanh, rule, x, where);
}

value sigmoid(const value& x, std::source_location where) {
  const auto rule = [](inputs_of, const located& y, const located& dy) -> std::vector<adjoint> {
    return {apply_function("sigmoid_gradient", elementwise_function::sigmoid_gradient, y, dy)};
  };
  return unary("sigmoid", elementwise_function::sigmoid, rule, x, where);
}

value exp(const value& x, std::source_location where) {
  const auto rule = [](inputs_of, const located& y, const located& dy) -> std::vector<adjoint> {
    return {multiply(dy, y)};
  };
  return unary("exp", elementwise_function::exp, rule, x, where);
}

value log(const value& x, std::source_location where) {
  const auto rule = [](inputs_of in, const located& y, const located& dy) -> std::vector<adjoint> {
    return {divide(dy, {in[0], y.where})};
  };
  return unary("log", elementwise_function::log, rule, x, where);
}

value square(const value& x, std::source_location where) {
  const auto rule = [](inputs_of in, const located& y, const located& dy) -> std::vector<adjoint> {
    return {apply_function("square_gradient", elementwise_function::square_gradient, {in[0], y.where}, dy)};
  };
  return unary("square", elementwise_function::square, rule, x, where);
}

value sqrt(const value& x, std::source_location where) {
  const auto rule = [](inputs_of, const located& y, const located& dy) -> std::vector<adjoint> {
    return {apply_function("sqrt_gradient", elementwise_function::sqrt_gradient, y, dy)};
  };
  return unary("sqrt", elementwise_function::sqrt, rule, x, where);
}

} // namespace mailgrad
