#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/onnx_nodes.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/graph/operations/padding.hpp>
#include <mailgrad/graph/travelling.hpp>
#include <mailgrad/kernels/convolution.hpp>
#include <mailgrad/kernels/pooling.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace mailgrad {

namespace {

/// Windows along one axis.
struct axis {
  std::size_t before, after, count;
};

axis place_along(std::size_t extent, std::size_t window, std::size_t stride, const padding& pad,
                 std::size_t which) {
  std::size_t before = 0;
  std::size_t after = 0;
  if (pad.how == padding::rule::same) {
    const std::size_t covered = ((extent + stride - 1) / stride - 1) * stride + window;
    const std::size_t missing = covered - std::min(covered, extent);
    before = missing / 2;
    after = missing - before;
  } else if (pad.how == padding::rule::given) {
    before = pad.before[which];
    after = pad.after[which];
  }
  const std::string_view name = which == 0 ? "rows" : "columns";
  if (std::max(before, after) >= window)
    throw shape_error(
        fmt::format("{} {} of padding need a window of more than {}", std::max(before, after), name, window));
  const std::size_t padded = extent + before + after;
  if (window > padded)
    throw shape_error(fmt::format("a window of {} {} does not fit into {}", window, name, padded));
  return {before, after, (padded - window) / stride + 1};
}

} // namespace

std::string to_string(const padding& p) {
  if (p.how == padding::rule::same) return "padding same";
  if (p.how == padding::rule::valid) return "padding valid";
  return fmt::format("padding {}+{} {}+{}", p.before[0], p.after[0], p.before[1], p.after[1]);
}

window_grid place_windows(const shape& image, const std::array<std::size_t, 2>& window,
                          const std::array<std::size_t, 2>& stride, const padding& pad) {
  if (image.rank() != 4)
    throw shape_error(
        fmt::format("images are [batch, height, width, channels], not of rank {}", image.rank()));
  if (image[1] == 0 || image[2] == 0) throw shape_error("an image has no pixels");
  if (window[0] == 0 || window[1] == 0)
    throw shape_error(fmt::format("a window of {}x{}", window[0], window[1]));
  if (stride[0] == 0 || stride[1] == 0)
    throw shape_error(fmt::format("a stride of {}x{}", stride[0], stride[1]));
  constexpr std::size_t most = std::size_t{1} << 31;
  if (std::max({window[0], window[1], stride[0], stride[1]}) > most)
    throw shape_error(fmt::format("windows of {}x{} every {}x{} pixels; at most {} are possible", window[0],
                                  window[1], stride[0], stride[1], most));
  const axis down = place_along(image[1], window[0], stride[0], pad, 0);
  const axis across = place_along(image[2], window[1], stride[1], pad, 1);
  return {.batch = image[0],
          .height = image[1],
          .width = image[2],
          .channels = image[3],
          .rows = window[0],
          .columns = window[1],
          .stride_rows = stride[0],
          .stride_columns = stride[1],
          .pad_top = down.before,
          .pad_left = across.before,
          .pad_bottom = down.after,
          .pad_right = across.after,
          .out_height = down.count,
          .out_width = across.count};
}

std::vector<onnx_attribute> onnx_windows(const window_grid& g) {
  const auto list = [](std::initializer_list<std::size_t> extents) {
    return std::vector<std::int64_t>(extents.begin(), extents.end());
  };
  return {{"kernel_shape", list({g.rows, g.columns})},
          {"strides", list({g.stride_rows, g.stride_columns})},
          {"pads", list({g.pad_top, g.pad_left, g.pad_bottom, g.pad_right})}};
}

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

namespace {

enum class pooling : std::uint8_t { max, average };

class pooling_executable : public executable {
public:
  pooling_executable(pooling kind, const window_grid& g) : kind_(kind), grid_(g) {}
  void run(const stream& s, const call& c) override {
    if (kind_ == pooling::max)
      max_pool(s, grid_, c.in(0), c.out(0), c.out<std::int32_t>(1));
    else
      average_pool(s, grid_, c.in(0), c.out());
  }

private:
  pooling kind_;
  window_grid grid_;
};

class pooling_gradient_executable : public executable {
public:
  pooling_gradient_executable(pooling kind, const window_grid& g) : kind_(kind), grid_(g) {}
  void run(const stream& s, const call& c) override {
    if (kind_ == pooling::max)
      max_pool_gradient(s, grid_, c.in(0), c.in<std::int32_t>(1), c.out());
    else
      average_pool_gradient(s, grid_, c.in(0), c.out());
  }

private:
  pooling kind_;
  window_grid grid_;
};

window_grid grid_of(const value_type& x, const pooling_options& options) {
  if (x.type != dtype::float32) throw shape_error("images are float32");
  return place_windows(x.dims, options.window, options.stride, options.pad);
}

shape pooled_dims(const window_grid& g) { return {g.batch, g.out_height, g.out_width, g.channels}; }

void keep_options(archive& a, pooling_options& options) {
  a.field("window", options.window);
  a.field("stride", options.stride);
  a.field("padding", options.pad);
}

/// Inputs: dy, and for max pooling the position chosen in each window.
class pooling_gradient_operation : public operation, public travelling<pooling_gradient_operation> {
public:
  explicit pooling_gradient_operation(pooling kind, const pooling_options& options = {},
                                      const shape& images = {})
      : kind_(kind), options_(options), images_(images) {}
  void keep(archive& a) {
    a.version(1);
    keep_options(a, options_);
    a.field("images", images_);
  }

  std::string_view name() const noexcept override {
    return kind_ == pooling::max ? "max_pool_gradient" : "average_pool_gradient";
  }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, kind_ == pooling::max ? 2 : 1);
    const shape pooled = pooled_dims(grid());
    if (inputs[0] != value_type{pooled, dtype::float32})
      throw shape_error("expected the gradient of the result");
    if (kind_ == pooling::max && inputs[1] != value_type{pooled, dtype::int32})
      throw shape_error("expected a position for each window");
    return {{images_, dtype::float32}};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type>, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<pooling_gradient_executable>(kind_, grid());
  }

private:
  window_grid grid() const { return grid_of({images_, dtype::float32}, options_); }

  pooling kind_;
  pooling_options options_;
  shape images_;
};

/// Outputs: y, and for max pooling the position chosen in each window.
class pooling_operation : public operation, public onnx_form, public travelling<pooling_operation> {
public:
  explicit pooling_operation(pooling kind, const pooling_options& options = {})
      : kind_(kind), options_(options) {}
  void keep(archive& a) {
    a.version(1);
    keep_options(a, options_);
  }

  std::string_view name() const noexcept override {
    return kind_ == pooling::max ? "max_pool" : "average_pool";
  }

  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 1);
    const shape pooled = pooled_dims(grid_of(inputs[0], options_));
    if (kind_ == pooling::average) return {{pooled, dtype::float32}};
    return {{pooled, dtype::float32}, {pooled, dtype::int32}};
  }

  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    graph& model = inputs[0].owner();
    std::vector<value> needed{*dy[0]};
    if (kind_ == pooling::max) needed.push_back(outputs[1]);
    return {model.apply_one(std::make_shared<pooling_gradient_operation>(kind_, options_, inputs[0].dims()),
                            std::move(needed), model.of(outputs[0]).where)};
  }

  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<pooling_executable>(kind_, grid_of(inputs[0], options_));
  }

  std::string describe() const override {
    return fmt::format("window {}x{}, stride {}x{}, {}", options_.window[0], options_.window[1],
                       options_.stride[0], options_.stride[1], to_string(options_.pad));
  }

  /// ONNX has channels before rows and columns. Both leave out the padding of an average.
  std::vector<std::string> to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                   std::span<const onnx_value>) const override {
    const std::string x = to.add("Transpose", {inputs[0].name}, {{"perm", onnx_order{0, 3, 1, 2}}});
    const std::string y = to.add(kind_ == pooling::max ? "MaxPool" : "AveragePool", {x},
                                 onnx_windows(grid_of(inputs[0].type, options_)));
    return {to.add("Transpose", {y}, {{"perm", onnx_order{0, 2, 3, 1}}})};
  }

private:
  pooling kind_;
  pooling_options options_;
};

value pool(pooling kind, const value& x, const pooling_options& options, const std::source_location& where) {
  return x.owner(where).apply(std::make_shared<pooling_operation>(kind, options), {x}, where).front();
}

} // namespace

value max_pool(const value& x, const pooling_options& options, std::source_location where) {
  return pool(pooling::max, x, options, where);
}

value average_pool(const value& x, const pooling_options& options, std::source_location where) {
  return pool(pooling::average, x, options, where);
}

void add_pooling_kinds(operation_registry& to) {
  for (const pooling kind : {pooling::max, pooling::average}) {
    to.add(pooling_operation(kind));
    to.add(pooling_gradient_operation(kind));
  }
}

} // namespace mailgrad
