#pragma once

#include <mailgrad/graph/operations/kinds.hpp>

namespace mailgrad {

/// The shape of an element-wise result. Both shapes are aligned at their last axis, and extents of 1 are
/// repeated.
///
/// Errors  shape_error if two extents differ and neither is 1.
shape broadcast_shapes(const shape& a, const shape& b);

/// An operation that applies one function of one or two operands to each element.
struct elementwise_kind {
  std::string_view name;
  elementwise_function function;
  void keep(archive&) {} // the name says it all
  std::vector<value_type> infer(type_list inputs) const;
  std::unique_ptr<executable> prepare(const fixed_types& t) const;
  std::vector<std::string> to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list) const;
  /// The result may overwrite the first operand. A function that computes a gradient overwrites dy, the
  /// second.
  std::size_t overwritten() const noexcept { return function >= elementwise_function::relu_gradient ? 1 : 0; }
};

/// Makes an executable that runs a chain over n elements.
std::unique_ptr<executable> make_executable(const elementwise_chain& chain, std::size_t n, device_kind where);

} // namespace mailgrad
