#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/kinds.hpp>
#include <mailgrad/kernels/layer_norm.hpp>
#include <mailgrad/kernels/reduce.hpp>
#include <mailgrad/kernels/softmax.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <algorithm>

namespace mailgrad {
namespace {

void require_rows(const value_type& x) {
  if (x.type != dtype::float32) throw shape_error("expected float32");
  if (x.dims.rank() == 0) throw shape_error("a scalar has no axis to sum over");
}

/// Inputs: the result y of softmax, its gradient dy. Output: the gradient of x.
struct softmax_gradient_kind {
  static constexpr std::string_view name = "softmax_gradient";
  static constexpr std::size_t operands = 2, overwritten = 1;
  std::vector<value_type> infer(type_list inputs) const {
    require_rows(inputs[0]);
    if (inputs[1] != inputs[0]) throw shape_error("expected the gradient of the result");
    return {inputs[1]};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel([g = row_grid(t.inputs[0].dims)](const stream& s, const call& c) {
      softmax_gradient(s, c.in(0), c.in(1), c.out(), g.rows, g.columns);
    });
  }
};

struct softmax_kind {
  static constexpr std::string_view name = "softmax";
  static constexpr std::size_t operands = 1, overwritten = 0;
  std::vector<value_type> infer(type_list inputs) const {
    require_rows(inputs[0]);
    return {inputs[0]};
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    return {d.apply(made(softmax_gradient_kind()), {d.outputs[0], *d.dy[0]}).front()};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel([g = row_grid(t.inputs[0].dims)](const stream& s, const call& c) {
      softmax(s, c.in(0), c.out(), g.rows, g.columns);
    });
  }
  std::vector<std::string> to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list) const {
    return {to.add("Softmax", {inputs[0].name}, {{"axis", -1}})};
  }
};

void require_labelled(const value_type& logits, const value_type& labels) {
  if (logits.type != dtype::float32) throw shape_error("expected float32 logits");
  if (labels.type != dtype::int32) throw shape_error("expected int32 labels");
  if (logits.dims.rank() == 0 || logits.dims.back() == 0) throw shape_error("there are no classes");
  if (!std::equal(labels.dims.begin(), labels.dims.end(), logits.dims.begin(), logits.dims.end() - 1))
    throw shape_error("expected one label for each row of logits");
}

/// Inputs: probabilities, labels, the gradient of the loss. Output: the gradient of the logits.
struct cross_entropy_gradient_kind {
  static constexpr std::string_view name = "cross_entropy_gradient";
  static constexpr std::size_t operands = 3, overwritten = 0;
  std::vector<value_type> infer(type_list inputs) const {
    require_labelled(inputs[0], inputs[1]);
    if (inputs[2] != value_type{}) throw shape_error("expected the gradient of a scalar");
    return {inputs[0]};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel([g = row_grid(t.inputs[0].dims)](const stream& s, const call& c) {
      cross_entropy_gradient(s, c.in(0), c.in<std::int32_t>(1), c.in(2), c.out(), g.rows, g.columns);
    });
  }
};

/// Outputs: the loss, and the probabilities, which only the gradient reads.
struct cross_entropy_kind {
  static constexpr std::string_view name = "cross_entropy";
  static constexpr std::size_t operands = 2;
  std::vector<value_type> infer(type_list inputs) const {
    require_labelled(inputs[0], inputs[1]);
    return {{shape{}, dtype::float32}, inputs[0]};
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    const std::vector<value> made_of{d.outputs[1], d.inputs[1], *d.dy[0]};
    return {d.apply(made(cross_entropy_gradient_kind()), made_of).front(), adjoint{}};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel([g = row_grid(t.inputs[0].dims)](const stream& s, const call& c) {
      cross_entropy(s, c.in(0), c.in<std::int32_t>(1), c.out(0), c.out(1), g.rows, g.columns);
    });
  }
};

struct mean_squared_error_kind {
  static constexpr std::string_view name = "mean_squared_error";
  static constexpr std::size_t operands = 2;
  std::vector<value_type> infer(type_list inputs) const {
    for (const value_type& t : inputs)
      if (t.type != dtype::float32) throw shape_error("expected float32");
    if (inputs[0].dims != inputs[1].dims) throw shape_error("the shapes differ");
    return {{shape{}, dtype::float32}};
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    const std::source_location where = d.where();
    const located a(d.inputs[0], where), b(d.inputs[1], where), dy(*d.dy[0], where);
    const float two_over_n = 2.0F / static_cast<float>(d.inputs[0].dims().size());
    const located da(located(a - b, where) * located(dy * two_over_n, where), where);
    return {da.what, -da};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel([n = t.inputs[0].dims.size()](const stream& s, const call& c) {
      mean_squared_difference(s, c.in(0), c.in(1), n, c.out());
    });
  }
};

/// Checks x, and gamma and beta. Returns the type of a number for each row.
value_type require_rows(const value_type& x, const std::array<value_type, 2>& parameters, float epsilon) {
  for (const value_type& t : {x, parameters[0], parameters[1]})
    if (t.type != dtype::float32) throw shape_error("x, gamma and beta are float32");
  if (x.dims.rank() == 0 || x.dims.back() == 0) throw shape_error("rows of x have no elements");
  const shape row{x.dims.back()};
  if (parameters[0].dims != row || parameters[1].dims != row)
    fail_with<shape_error>("gamma and beta must have shape {}", to_string(row));
  if (!(epsilon > 0)) fail_with<shape_error>("epsilon must be above 0, not {:f}", epsilon);
  return {shape{x.dims.size() / x.dims.back()}, dtype::float32};
}

struct layer_norm_attributes {
  float epsilon = 1;
  void keep(archive& a) { keep_attributes(a, "epsilon", epsilon); }
  layer_norm_rows grid_of(const shape& x) const { return {x.size() / x.back(), x.back(), epsilon}; }
};

/// Inputs: x, gamma, mean, inverse deviation, dy. Outputs: dx, dgamma, dbeta.
struct layer_norm_gradient_kind : layer_norm_attributes {
  static constexpr std::string_view name = "layer_norm_gradient";
  static constexpr std::size_t operands = 5;
  std::vector<value_type> infer(type_list inputs) const {
    const value_type &x = inputs[0], &gamma = inputs[1], &mean = inputs[2], &deviation = inputs[3],
                     &dy = inputs[4];
    const value_type statistic = require_rows(x, {gamma, gamma}, epsilon);
    if (mean != statistic || deviation != statistic || dy != x)
      throw shape_error("expected the mean and the deviation of each row, and the gradient of the result");
    return {x, gamma, gamma};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel({.operands = 1U << 4},
                  [rows = grid_of(t.inputs[0].dims)](const stream& s, const call& c, const auto& numbers) {
                    layer_norm_gradient(s, rows, c.in(0), c.in(1), c.in(2), c.in(3), numbers.operand(c, 4),
                                        c.out(0), c.out(1), c.out(2));
                  });
  }
};

/// Outputs: y, the mean of each row, the inverse deviation of each row.
struct layer_norm_kind : layer_norm_attributes {
  static constexpr std::string_view name = "layer_norm";
  static constexpr std::size_t operands = 3;
  std::vector<value_type> infer(type_list inputs) const {
    const value_type statistic = require_rows(inputs[0], {inputs[1], inputs[2]}, epsilon);
    return {inputs[0], statistic, statistic};
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    const auto parts = d.apply(made(layer_norm_gradient_kind{*this}),
                               {d.inputs[0], d.inputs[1], d.outputs[1], d.outputs[2], *d.dy[0]});
    return {parts.begin(), parts.end()};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel({.results = 1},
                  [rows = grid_of(t.inputs[0].dims)](const stream& s, const call& c, const auto& numbers) {
                    layer_norm(s, rows, c.in(0), c.in(1), c.in(2), numbers.result(c, 0), c.out(1), c.out(2));
                  });
  }
  std::string describe() const { return fmt::format("epsilon {}", exact_text(epsilon)); }
  std::vector<std::string> to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list) const {
    return {to.add("LayerNormalization", {inputs[0].name, inputs[1].name, inputs[2].name},
                   {{"axis", -1}, {"epsilon", epsilon}})};
  }
};

} // namespace

value softmax(const value& x, std::source_location where) {
  return x.owner(where).apply_one(made(softmax_kind()), {x}, where);
}
value cross_entropy(const value& logits, const value& labels, std::source_location where) {
  return logits.owner(where).apply_one(made(cross_entropy_kind()), {logits, labels}, where);
}
value mean_squared_error(const value& a, const value& b, std::source_location where) {
  return a.owner(where).apply_one(made(mean_squared_error_kind()), {a, b}, where);
}
value layer_norm(const value& x, const value& gamma, const value& beta, float epsilon,
                 std::source_location where) {
  return x.owner(where).apply_one(made(layer_norm_kind{{epsilon}}), {x, gamma, beta}, where);
}

void add_row_kinds(operation_registry& to) {
  add_kinds(to, softmax_kind(), softmax_gradient_kind(), cross_entropy_kind(), cross_entropy_gradient_kind(),
            mean_squared_error_kind(), layer_norm_kind(), layer_norm_gradient_kind());
}

} // namespace mailgrad
