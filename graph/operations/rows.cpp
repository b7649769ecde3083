#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/onnx_nodes.hpp>
#include <mailgrad/graph/operation.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/kernels/layer_norm.hpp>
#include <mailgrad/kernels/reduce.hpp>
#include <mailgrad/kernels/softmax.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace mailgrad {

namespace {

/// Rows along the last axis.
struct row_grid {
  explicit row_grid(const shape& s) : columns(s.back()), rows(columns == 0 ? 0 : s.size() / columns) {}
  std::size_t columns, rows;
};

void require_rows(const value_type& x) {
  if (x.type != dtype::float32) throw shape_error("expected float32");
  if (x.dims.rank() == 0) throw shape_error("a scalar has no axis to sum over");
}

class softmax_executable : public executable {
public:
  explicit softmax_executable(const shape& x) : grid_(x) {}
  void run(const stream& s, const call& c) override {
    softmax(s, c.in(0), c.out(), grid_.rows, grid_.columns);
  }

private:
  row_grid grid_;
};

class softmax_gradient_executable : public executable {
public:
  explicit softmax_gradient_executable(const shape& y) : grid_(y) {}
  void run(const stream& s, const call& c) override {
    softmax_gradient(s, c.in(0), c.in(1), c.out(), grid_.rows, grid_.columns);
  }

private:
  row_grid grid_;
};

/// Inputs: the result y of softmax, its gradient dy. Output: the gradient of x.
class softmax_gradient_operation : public operation, public travelling<softmax_gradient_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "softmax_gradient"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
    require_rows(inputs[0]);
    if (inputs[1] != inputs[0]) throw shape_error("expected the gradient of the result");
    return {inputs[1]};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<softmax_gradient_executable>(inputs[0].dims);
  }
  std::optional<std::size_t> overwrites() const noexcept override { return 1; }
};

class softmax_operation : public operation, public onnx_form, public travelling<softmax_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "softmax"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 1);
    require_rows(inputs[0]);
    return {inputs[0]};
  }
  std::vector<adjoint> gradient(std::span<const value>, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    graph& model = outputs[0].owner();
    return {model.apply_one(std::make_shared<softmax_gradient_operation>(), {outputs[0], *dy[0]},
                            model.of(outputs[0]).where)};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<softmax_executable>(inputs[0].dims);
  }
  std::vector<std::string> to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                   std::span<const onnx_value>) const override {
    return {to.add("Softmax", {inputs[0].name}, {{"axis", -1}})};
  }
  std::optional<std::size_t> overwrites() const noexcept override { return 0; }
};

} // namespace

value softmax(const value& x, std::source_location where) {
  return x.owner(where).apply_one(std::make_shared<softmax_operation>(), {x}, where);
}

void add_softmax_kinds(operation_registry& to) {
  to.add<softmax_operation>();
  to.add<softmax_gradient_operation>();
}

namespace {

class cross_entropy_executable : public executable {
public:
  explicit cross_entropy_executable(const shape& logits)
      : columns_(logits.back()), rows_(logits.size() / columns_) {}
  void run(const stream& s, const call& c) override {
    cross_entropy(s, c.in(0), c.in<std::int32_t>(1), c.out(0), c.out(1), rows_, columns_);
  }

private:
  std::size_t columns_, rows_;
};

class cross_entropy_gradient_executable : public executable {
public:
  explicit cross_entropy_gradient_executable(const shape& logits)
      : columns_(logits.back()), rows_(logits.size() / columns_) {}
  void run(const stream& s, const call& c) override {
    cross_entropy_gradient(s, c.in(0), c.in<std::int32_t>(1), c.in(2), c.out(), rows_, columns_);
  }

private:
  std::size_t columns_, rows_;
};

void require_labelled(const value_type& logits, const value_type& labels) {
  if (logits.type != dtype::float32) throw shape_error("expected float32 logits");
  if (labels.type != dtype::int32) throw shape_error("expected int32 labels");
  if (logits.dims.rank() == 0 || logits.dims.back() == 0) throw shape_error("there are no classes");
  if (!std::equal(labels.dims.begin(), labels.dims.end(), logits.dims.begin(), logits.dims.end() - 1))
    throw shape_error("expected one label for each row of logits");
}

/// Inputs: probabilities, labels, the gradient of the loss. Output: the gradient of the logits.
class cross_entropy_gradient_operation : public operation,
                                         public travelling<cross_entropy_gradient_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "cross_entropy_gradient"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 3);
    require_labelled(inputs[0], inputs[1]);
    if (inputs[2] != value_type{}) throw shape_error("expected the gradient of a scalar");
    return {inputs[0]};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<cross_entropy_gradient_executable>(inputs[0].dims);
  }
  std::optional<std::size_t> overwrites() const noexcept override { return 0; }
};

/// Outputs: the loss, and the probabilities, which only the gradient reads.
class cross_entropy_operation : public operation, public travelling<cross_entropy_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "cross_entropy"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
    require_labelled(inputs[0], inputs[1]);
    return {{shape{}, dtype::float32}, inputs[0]};
  }
  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    graph& model = outputs[0].owner();
    return {model.apply_one(std::make_shared<cross_entropy_gradient_operation>(),
                            {outputs[1], inputs[1], *dy[0]}, model.of(outputs[0]).where),
            adjoint{}};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<cross_entropy_executable>(inputs[0].dims);
  }
};

} // namespace

value cross_entropy(const value& logits, const value& labels, std::source_location where) {
  return logits.owner(where)
      .apply(std::make_shared<cross_entropy_operation>(), {logits, labels}, where)
      .front();
}

void add_cross_entropy_kinds(operation_registry& to) {
  to.add<cross_entropy_operation>();
  to.add<cross_entropy_gradient_operation>();
}

namespace {

class mean_squared_error_executable : public executable {
public:
  explicit mean_squared_error_executable(std::size_t n) : n_(n) {}
  void run(const stream& s, const call& c) override {
    mean_squared_difference(s, c.in(0), c.in(1), n_, c.out());
  }

private:
  std::size_t n_;
};

class mean_squared_error_operation : public operation, public travelling<mean_squared_error_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "mean_squared_error"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
    for (const value_type& t : inputs)
      if (t.type != dtype::float32) throw shape_error("expected float32");
    if (inputs[0].dims != inputs[1].dims) throw shape_error("the shapes differ");
    return {{shape{}, dtype::float32}};
  }
  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    const std::source_location where = outputs[0].owner().of(outputs[0]).where;
    const located a(inputs[0], where), b(inputs[1], where), d(*dy[0], where);
    const float two_over_n = 2.0F / static_cast<float>(inputs[0].dims().size());
    const located da(located(a - b, where) * located(d * two_over_n, where), where);
    return {da.what, -da};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<mean_squared_error_executable>(inputs[0].dims.size());
  }
};

} // namespace

value mean_squared_error(const value& a, const value& b, std::source_location where) {
  return a.owner(where).apply_one(std::make_shared<mean_squared_error_operation>(), {a, b}, where);
}

void add_mean_squared_error_kinds(operation_registry& to) { to.add<mean_squared_error_operation>(); }

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
