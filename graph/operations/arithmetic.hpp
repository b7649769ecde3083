#pragma once

#include <mailgrad/graph/value.hpp>

#include <source_location>

namespace mailgrad {

// Arithmetic on elements, with NumPy's broadcasting: shapes are aligned at their last axis, and an axis of
// extent 1, or a missing one, is repeated.
//
// Shapes  float32, any ranks; each extent of the result is the larger of the two.
// Errors  graph_error if two extents differ and neither is 1.

value add(const located& a, const located& b);
value subtract(const located& a, const located& b);
value multiply(const located& a, const located& b);
value divide(const located& a, const located& b);

inline value operator+(const located& a, const located& b) { return add(a, b); }
inline value operator-(const located& a, const located& b) { return subtract(a, b); }
inline value operator*(const located& a, const located& b) { return multiply(a, b); }
inline value operator/(const located& a, const located& b) { return divide(a, b); }

value operator+(const located& a, float b);
value operator-(const located& a, float b);
value operator*(const located& a, float b);
value operator/(const located& a, float b);
value operator+(float a, const located& b);
value operator-(float a, const located& b);
value operator*(float a, const located& b);
value operator/(float a, const located& b);
value operator-(const located& a);

/// Adds `b` to each row of x.
///
/// Shapes  x: float32[..., n]; b: float32[n].
value add_bias(const value& x, const value& b, std::source_location where = std::source_location::current());

/// max(x + b, 0) in one pass over x.
///
/// Shapes  as add_bias.
value bias_relu(const value& x, const value& b, std::source_location where = std::source_location::current());

} // namespace mailgrad
