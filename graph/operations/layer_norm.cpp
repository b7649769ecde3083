#include <mailgrad/graph/operations.hpp>

#include <mailgrad/graph/bfloat16_form.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/onnx_nodes.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/kernels/layer_norm.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <array>

namespace mailgrad {

namespace {

layer_norm_rows rows_of(const shape& x, float epsilon) { return {x.size() / x.back(), x.back(), epsilon}; }

/// Checks x, and gamma and beta. Returns the type of a number for each row.
value_type require_rows(const value_type& x, const std::array<value_type, 2>& parameters, float epsilon) {
  for (const value_type& t : {x, parameters[0], parameters[1]})
    if (t.type != dtype::float32) throw shape_error("x, gamma and beta are float32");
  if (x.dims.rank() == 0 || x.dims.back() == 0) throw shape_error("rows of x have no elements");
  const shape row{x.dims.back()};
  if (parameters[0].dims != row || parameters[1].dims != row)
    throw shape_error(fmt::format("gamma and beta must have shape {}", to_string(row)));
  if (!(epsilon > 0)) throw shape_error(fmt::format("epsilon must be above 0, not {:f}", epsilon));
  return {shape{x.dims.size() / x.dims.back()}, dtype::float32};
}

class layer_norm_executable : public executable, public bfloat16_form {
public:
  explicit layer_norm_executable(const layer_norm_rows& rows) : rows_(rows) {}
  void run(const stream& s, const call& c) override {
    mailgrad::layer_norm(s, rows_, c.in(0), c.in(1), c.in(2), result(c, 0), c.out(1), c.out(2));
  }
  bool needs(std::size_t) const override { return false; }
  bool may_write(std::size_t i) const override { return i == 0; }

private:
  layer_norm_rows rows_;
};

class layer_norm_gradient_executable : public executable, public bfloat16_form {
public:
  explicit layer_norm_gradient_executable(const layer_norm_rows& rows) : rows_(rows) {}
  void run(const stream& s, const call& c) override {
    layer_norm_gradient(s, rows_, c.in(0), c.in(1), c.in(2), c.in(3), operand(c, 4), c.out(0), c.out(1),
                        c.out(2));
  }
  bool needs(std::size_t) const override { return false; }
  bool may_read(std::size_t i) const override { return i == 4; }

private:
  layer_norm_rows rows_;
};

/// Inputs: x, gamma, mean, inverse deviation, dy. Outputs: dx, dgamma, dbeta.
class layer_norm_gradient_operation : public operation, public travelling<layer_norm_gradient_operation> {
public:
  explicit layer_norm_gradient_operation(float epsilon = 1) : epsilon_(epsilon) {}
  void keep(archive& a) {
    a.version(1);
    a.field("epsilon", epsilon_);
  }

  std::string_view name() const noexcept override { return "layer_norm_gradient"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 5);
    const value_type &x = inputs[0], &gamma = inputs[1], &mean = inputs[2], &deviation = inputs[3],
                     &dy = inputs[4];
    const value_type statistic = require_rows(x, {gamma, gamma}, epsilon_);
    if (mean != statistic || deviation != statistic || dy != x)
      throw shape_error("expected the mean and the deviation of each row, and the gradient of the result");
    return {x, gamma, gamma};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<layer_norm_gradient_executable>(rows_of(inputs[0].dims, epsilon_));
  }

private:
  float epsilon_;
};

/// Outputs: y, the mean of each row, the inverse deviation of each row.
class layer_norm_operation : public operation, public onnx_form, public travelling<layer_norm_operation> {
public:
  explicit layer_norm_operation(float epsilon = 1) : epsilon_(epsilon) {}
  void keep(archive& a) {
    a.version(1);
    a.field("epsilon", epsilon_);
  }

  std::string_view name() const noexcept override { return "layer_norm"; }

  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 3);
    const value_type statistic = require_rows(inputs[0], {inputs[1], inputs[2]}, epsilon_);
    return {inputs[0], statistic, statistic};
  }

  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    graph& model = inputs[0].owner();
    const auto parts =
        model.apply(std::make_shared<layer_norm_gradient_operation>(epsilon_),
                    {inputs[0], inputs[1], outputs[1], outputs[2], *dy[0]}, model.of(outputs[0]).where);
    return {parts.begin(), parts.end()};
  }

  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<layer_norm_executable>(rows_of(inputs[0].dims, epsilon_));
  }

  std::string describe() const override { return fmt::format("epsilon {}", exact_text(epsilon_)); }
  std::vector<std::string> to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                   std::span<const onnx_value>) const override {
    return {to.add("LayerNormalization", {inputs[0].name, inputs[1].name, inputs[2].name},
                   {{"axis", -1}, {"epsilon", epsilon_}})};
  }

private:
  float epsilon_;
};

} // namespace

value layer_norm(const value& x, const value& gamma, const value& beta, float epsilon,
                 std::source_location where) {
  return x.owner(where)
      .apply(std::make_shared<layer_norm_operation>(epsilon), {x, gamma, beta}, where)
      .front();
}

void add_layer_norm_kinds(operation_registry& to) {
  to.add<layer_norm_operation>();
  to.add<layer_norm_gradient_operation>();
}

} // namespace mailgrad
