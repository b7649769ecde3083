#include <mailgrad/graph/operations/layer_norm.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/onnx_nodes.hpp>
#include <mailgrad/kernels/layer_norm.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/exact_text.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

layer_norm_rows rows_of(const shape& x, float epsilon) { return {x.size() / x.back(), x.back(), epsilon}; }

class layer_norm_executable : public executable {
public:
  explicit layer_norm_executable(const layer_norm_rows& rows) : rows_(rows) {}
  void run(const stream& s, const call& c) override {
    mailgrad::layer_norm(s, rows_, c.in(0), c.in(1), c.in(2), c.out(0), c.out(1), c.out(2));
  }

private:
  layer_norm_rows rows_;
};

class gradient_executable : public executable {
public:
  explicit gradient_executable(const layer_norm_rows& rows) : rows_(rows) {}
  void run(const stream& s, const call& c) override {
    layer_norm_gradient(s, rows_, c.in(0), c.in(1), c.in(2), c.in(3), c.in(4), c.out(0), c.out(1), c.out(2));
  }

private:
  layer_norm_rows rows_;
};

/// Inputs: x, gamma, mean, inverse deviation, dy. Outputs: dx, dgamma, dbeta.
class gradient_operation : public operation {
public:
  explicit gradient_operation(float epsilon) : epsilon_(epsilon) {}

  std::string_view name() const noexcept override { return "layer_norm_gradient"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    return {inputs[0], inputs[1], inputs[1]};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs,
                                      std::span<const value_type>) const override {
    return std::make_unique<gradient_executable>(rows_of(inputs[0].dims, epsilon_));
  }

private:
  float epsilon_;
};

/// Outputs: y, the mean of each row, the inverse deviation of each row.
class layer_norm_operation : public operation, public onnx_form {
public:
  explicit layer_norm_operation(float epsilon) : epsilon_(epsilon) {}

  std::string_view name() const noexcept override { return "layer_norm"; }

  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    for (const value_type& t : inputs)
      if (t.type != dtype::float32) throw shape_error("x, gamma and beta are float32");
    const shape& x = inputs[0].dims;
    if (x.rank() == 0 || x.back() == 0) throw shape_error("rows of x have no elements");
    const shape row{x.back()};
    if (inputs[1].dims != row || inputs[2].dims != row)
      throw shape_error(fmt::format("gamma and beta must have shape {}", to_string(row)));
    if (!(epsilon_ > 0)) throw shape_error(fmt::format("epsilon must be above 0, not {:f}", epsilon_));
    const value_type statistic{shape{x.size() / x.back()}, dtype::float32};
    return {inputs[0], statistic, statistic};
  }

  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    graph& model = inputs[0].owner();
    const auto parts =
        model.apply(std::make_shared<gradient_operation>(epsilon_),
                    {inputs[0], inputs[1], outputs[1], outputs[2], *dy[0]}, model.of(outputs[0]).where);
    return {parts.begin(), parts.end()};
  }

  std::unique_ptr<executable> prepare(std::span<const value_type> inputs,
                                      std::span<const value_type>) const override {
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

} // namespace mailgrad
