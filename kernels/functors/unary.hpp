#pragma once

#include <mailgrad/kernels/functors/approximations.hpp>

#include <cmath>

/// Functions of one number, each a formula for host and device.
namespace mailgrad::functors {

struct copy {
  MAILGRAD_HOST_DEVICE float operator()(float x) const { return x; }
};
struct negate {
  MAILGRAD_HOST_DEVICE float operator()(float x) const { return -x; }
};

/// A NaN stays NaN: a loss that has become NaN must not be hidden by the next layer.
struct relu {
  MAILGRAD_HOST_DEVICE float operator()(float x) const { return x < 0 ? 0 : x; }
};

/// Source  Hendrycks & Gimpel, arXiv:1606.08415: x Phi(x), with Phi itself, not the paper's tanh.
struct gelu {
  MAILGRAD_HOST_DEVICE float operator()(float x) const { return x * approximate::normal_at(x).share; }
};
struct tanh {
  MAILGRAD_HOST_DEVICE float operator()(float x) const { return approximate::tanh(x); }
};
struct sigmoid {
  MAILGRAD_HOST_DEVICE float operator()(float x) const { return 1 / (1 + approximate::exp(-x)); }
};
struct exp {
  MAILGRAD_HOST_DEVICE float operator()(float x) const { return approximate::exp(x); }
};
struct log {
  MAILGRAD_HOST_DEVICE float operator()(float x) const { return approximate::log(x); }
};
struct square {
  MAILGRAD_HOST_DEVICE float operator()(float x) const { return x * x; }
};
struct sqrt {
  MAILGRAD_HOST_DEVICE float operator()(float x) const { return std::sqrt(x); }
};

} // namespace mailgrad::functors
