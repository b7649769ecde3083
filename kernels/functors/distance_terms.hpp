#pragma once

#include <mailgrad/kernels/functors/host_device.hpp>

/// What inner products and squared distances add up for two elements, in float64.
namespace mailgrad::functors {

struct product {
  MAILGRAD_HOST_DEVICE double operator()(float a, float b) const {
    return static_cast<double>(a) * static_cast<double>(b);
  }
};

struct square_of_difference {
  MAILGRAD_HOST_DEVICE double operator()(float a, float b) const {
    const double d = static_cast<double>(a) - static_cast<double>(b);
    return d * d;
  }
};

} // namespace mailgrad::functors
