#include <mailgrad/graph/operations.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/onnx_nodes.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/graph/travelling.hpp>
#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

class convolution_executable : public executable {
public:
  explicit convolution_executable(std::unique_ptr<convolution_plan> plan) : plan_(std::move(plan)) {}
  std::size_t scratch_bytes() const noexcept override { return plan_->scratch_bytes(); }
  void run(const stream& s, const call& c) override { plan_->run(s, c.in(0), c.in(1), c.out(), c.scratch); }

private:
  std::unique_ptr<convolution_plan> plan_;
};

shape y_dims(const convolution_shape& c) {
  return {c.windows.batch, c.windows.out_height, c.windows.out_width, c.out_channels};
}

/// Places the windows of w over x.
convolution_shape shape_of(const value_type& x, const value_type& w, const convolution_options& options) {
  if (x.type != dtype::float32 || w.type != dtype::float32)
    throw shape_error("images and weights are float32");
  if (w.dims.rank() != 4)
    throw shape_error(fmt::format("weights are [rows, columns, in, out], not of rank {}", w.dims.rank()));
  const window_grid g = place_windows(x.dims, {w.dims[0], w.dims[1]}, options.stride, options.pad);
  if (g.channels != w.dims[2])
    throw shape_error(fmt::format("images of {} channels against weights for {}", g.channels, w.dims[2]));
  return {g, w.dims[3]};
}

void keep_options(archive& a, convolution_options& options) {
  a.field("stride", options.stride);
  a.field("padding", options.pad);
}

void require_gradient(const value_type& dy, const convolution_shape& c) {
  if (dy != value_type{y_dims(c), dtype::float32}) throw shape_error("expected the gradient of the result");
}

/// The gradient with respect to the images. Inputs: dy, w.
class data_gradient_operation : public operation, public travelling<data_gradient_operation> {
public:
  data_gradient_operation() = default;
  data_gradient_operation(const convolution_options& options, const shape& images)
      : options_(options), images_(images) {}
  void keep(archive& a) {
    a.version(1);
    keep_options(a, options_);
    a.field("images", images_);
  }

  std::string_view name() const noexcept override { return "conv2d_data_gradient"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
    require_gradient(inputs[0], shape_with(inputs[1]));
    return {{images_, dtype::float32}};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind where) const override {
    return std::make_unique<convolution_executable>(
        plan_convolution_data_gradient(shape_with(inputs[1]), where));
  }

private:
  convolution_shape shape_with(const value_type& w) const {
    return shape_of({images_, dtype::float32}, w, options_);
  }

  convolution_options options_;
  shape images_;
};

/// The gradient with respect to the weights. Inputs: x, dy.
class weight_gradient_operation : public operation, public travelling<weight_gradient_operation> {
public:
  weight_gradient_operation() = default;
  weight_gradient_operation(const convolution_options& options, const shape& weights)
      : options_(options), weights_(weights) {}
  void keep(archive& a) {
    a.version(1);
    keep_options(a, options_);
    a.field("weights", weights_);
  }

  std::string_view name() const noexcept override { return "conv2d_weight_gradient"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
    require_gradient(inputs[1], shape_with(inputs[0]));
    return {{weights_, dtype::float32}};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind where) const override {
    return std::make_unique<convolution_executable>(
        plan_convolution_weight_gradient(shape_with(inputs[0]), where));
  }

private:
  convolution_shape shape_with(const value_type& x) const {
    return shape_of(x, {weights_, dtype::float32}, options_);
  }

  convolution_options options_;
  shape weights_;
};

class convolution_operation : public operation, public onnx_form, public travelling<convolution_operation> {
public:
  explicit convolution_operation(const convolution_options& options = {}) : options_(options) {}
  void keep(archive& a) {
    a.version(1);
    keep_options(a, options_);
  }

  std::string_view name() const noexcept override { return "conv2d"; }

  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
    return {{y_dims(shape_of(inputs[0], inputs[1], options_)), dtype::float32}};
  }

  double work(std::span<const value_type> inputs, std::span<const value_type> outputs) const override {
    const shape& w = inputs[1].dims;
    return operation::work(inputs, outputs) +
           static_cast<double>(outputs[0].dims.size()) * static_cast<double>(w[0] * w[1] * w[2]);
  }

  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    const value& x = inputs[0];
    const value& w = inputs[1];
    graph& model = x.owner();
    const auto where = model.of(outputs[0]).where;
    return {
        model.apply_one(std::make_shared<data_gradient_operation>(options_, x.dims()), {*dy[0], w}, where),
        model.apply_one(std::make_shared<weight_gradient_operation>(options_, w.dims()), {x, *dy[0]}, where)};
  }

  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind where) const override {
    return std::make_unique<convolution_executable>(
        plan_convolution(shape_of(inputs[0], inputs[1], options_), where));
  }

  std::string describe() const override {
    return fmt::format("stride {}x{}, {}", options_.stride[0], options_.stride[1], to_string(options_.pad));
  }

  /// ONNX has channels before rows and columns.
  std::vector<std::string> to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                   std::span<const onnx_value>) const override {
    const window_grid g = shape_of(inputs[0].type, inputs[1].type, options_).windows;
    const std::string x = to.add("Transpose", {inputs[0].name}, {{"perm", onnx_order{0, 3, 1, 2}}});
    const std::string w = to.add("Transpose", {inputs[1].name}, {{"perm", onnx_order{3, 2, 0, 1}}});
    const std::string y = to.add("Conv", {x, w}, onnx_windows(g));
    return {to.add("Transpose", {y}, {{"perm", onnx_order{0, 2, 3, 1}}})};
  }

private:
  convolution_options options_;
};

} // namespace

value conv2d(const value& x, const value& w, const convolution_options& options, std::source_location where) {
  return x.owner(where).apply_one(std::make_shared<convolution_operation>(options), {x, w}, where);
}

void add_convolution_kinds(operation_registry& to) {
  to.add<convolution_operation>();
  to.add<data_gradient_operation>();
  to.add<weight_gradient_operation>();
}

} // namespace mailgrad
