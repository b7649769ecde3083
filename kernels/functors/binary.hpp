#pragma once

#include <mailgrad/kernels/functors/approximations.hpp>

/// Functions of two numbers, each a formula for host and device. A function f_gradient takes the argument x
/// or the result y of f, then the gradient dy with respect to y.
namespace mailgrad::functors {

struct add {
  MAILGRAD_HOST_DEVICE float operator()(float a, float b) const { return a + b; }
};
struct subtract {
  MAILGRAD_HOST_DEVICE float operator()(float a, float b) const { return a - b; }
};
struct multiply {
  MAILGRAD_HOST_DEVICE float operator()(float a, float b) const { return a * b; }
};
struct divide {
  MAILGRAD_HOST_DEVICE float operator()(float a, float b) const { return a / b; }
};

/// A NaN stays NaN, as in relu.
struct relu_of_sum {
  MAILGRAD_HOST_DEVICE float operator()(float a, float b) const {
    const float sum = a + b;
    return sum < 0 ? 0 : sum;
  }
};
struct relu_gradient {
  MAILGRAD_HOST_DEVICE float operator()(float y, float dy) const { return y > 0 ? dy : 0; }
};
struct gelu_gradient {
  MAILGRAD_HOST_DEVICE float operator()(float x, float dy) const {
    const approximate::normal_parts normal = approximate::normal_at(x);
    return dy * (normal.share + x * normal.density);
  }
};
struct tanh_gradient {
  MAILGRAD_HOST_DEVICE float operator()(float y, float dy) const { return dy * (1 - y * y); }
};
struct sigmoid_gradient {
  MAILGRAD_HOST_DEVICE float operator()(float y, float dy) const { return dy * y * (1 - y); }
};
struct square_gradient {
  MAILGRAD_HOST_DEVICE float operator()(float x, float dy) const { return 2 * x * dy; }
};
struct sqrt_gradient {
  MAILGRAD_HOST_DEVICE float operator()(float y, float dy) const { return 0.5F * dy / y; }
};

} // namespace mailgrad::functors
