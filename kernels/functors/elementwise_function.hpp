#pragma once

#include <mailgrad/kernels/functors/binary.hpp>
#include <mailgrad/kernels/functors/unary.hpp>

#include <type_traits>

namespace mailgrad {

/// The functions that element-wise kernels know. A new one needs a functor, a name here and a case below.
enum class elementwise_function : std::uint8_t {
  copy,
  negate,
  relu,
  gelu,
  tanh,
  sigmoid,
  exp,
  log,
  square,
  sqrt,
  add,
  subtract,
  multiply,
  divide,
  relu_of_sum,
  relu_gradient,
  gelu_gradient,
  tanh_gradient,
  sigmoid_gradient,
  square_gradient,
  sqrt_gradient,
};

/// Calls `visit` with the functor of that name.
template <class Visit>
MAILGRAD_HOST_DEVICE auto with_functor(elementwise_function name, Visit visit) {
  using enum elementwise_function;
  switch (name) {
  case copy:
    return visit(functors::copy{});
  case negate:
    return visit(functors::negate{});
  case relu:
    return visit(functors::relu{});
  case gelu:
    return visit(functors::gelu{});
  case tanh:
    return visit(functors::tanh{});
  case sigmoid:
    return visit(functors::sigmoid{});
  case exp:
    return visit(functors::exp{});
  case log:
    return visit(functors::log{});
  case square:
    return visit(functors::square{});
  case sqrt:
    return visit(functors::sqrt{});
  case add:
    return visit(functors::add{});
  case subtract:
    return visit(functors::subtract{});
  case multiply:
    return visit(functors::multiply{});
  case divide:
    return visit(functors::divide{});
  case relu_of_sum:
    return visit(functors::relu_of_sum{});
  case relu_gradient:
    return visit(functors::relu_gradient{});
  case gelu_gradient:
    return visit(functors::gelu_gradient{});
  case tanh_gradient:
    return visit(functors::tanh_gradient{});
  case sigmoid_gradient:
    return visit(functors::sigmoid_gradient{});
  case square_gradient:
    return visit(functors::square_gradient{});
  case sqrt_gradient:
    return visit(functors::sqrt_gradient{});
  }
  return visit(functors::copy{});
}

/// The functor applied to one or two numbers; a function of one number ignores the second.
template <class Functor>
MAILGRAD_HOST_DEVICE inline float apply(Functor f, float a, float b) {
  if constexpr (std::is_invocable_v<Functor, float>)
    return f(a);
  else
    return f(a, b);
}

/// Whether the function takes one number only.
constexpr bool is_unary(elementwise_function f) { return f <= elementwise_function::sqrt; }

} // namespace mailgrad
