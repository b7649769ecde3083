#pragma once

#include <mailgrad/graph/onnx_nodes.hpp>
#include <mailgrad/graph/operation.hpp>
#include <mailgrad/graph/serialisable.hpp>
#include <mailgrad/kernels/elementwise.hpp>

namespace mailgrad {

/// The shape of an element-wise result. Both shapes are aligned at their last axis, and extents of 1 are
/// repeated.
///
/// Errors  shape_error if two extents differ and neither is 1.
shape broadcast_shapes(const shape& a, const shape& b);

/// The name of an element-wise operation, and what it means.
struct elementwise_kind {
  /// Adds the nodes of the gradient with respect to each input, given the gradient of the result.
  using gradient_rule = std::vector<adjoint> (*)(std::span<const value> inputs, const located& y,
                                                 const located& dy);

  std::string_view name;
  elementwise_function function;
  gradient_rule rule; ///< null if the operation has no gradient
};

/// An operation that applies one function of one or two operands to each element.
class elementwise_operation : public operation, public onnx_form, public serialisable<elementwise_operation> {
public:
  using gradient_rule = elementwise_kind::gradient_rule;

  explicit elementwise_operation(const elementwise_kind& kind)
      : elementwise_operation(kind.name, kind.function, kind.rule) {}
  elementwise_operation(std::string_view name, elementwise_function f, gradient_rule rule)
      : name_(name), function_(f), rule_(rule) {}
  void keep(archive&) {} // the name says it all

  std::string_view name() const noexcept override { return name_; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override;
  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override;
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type> outputs,
                                      device_kind) const override;
  std::optional<std::size_t> overwrites() const noexcept override;
  std::optional<elementwise_function> function() const noexcept override { return function_; }
  std::vector<std::string> to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                   std::span<const onnx_value>) const override;

private:
  std::string_view name_;
  elementwise_function function_;
  gradient_rule rule_;
};

/// Makes an executable that runs a chain over n elements.
std::unique_ptr<executable> make_executable(const elementwise_chain& chain, std::size_t n, device_kind where);

} // namespace mailgrad
