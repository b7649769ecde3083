#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/kinds.hpp>
#include <mailgrad/kernels/pooling.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <algorithm>

namespace mailgrad {

std::string to_string(const padding& p) {
  if (p.how == padding::rule::same) return "padding same";
  if (p.how == padding::rule::valid) return "padding valid";
  return fmt::format("padding {}+{} {}+{}", p.before[0], p.after[0], p.before[1], p.after[1]);
}

namespace {

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
    fail_with<shape_error>("{} {} of padding need a window of more than {}", std::max(before, after), name,
                           window);
  const std::size_t padded = extent + before + after;
  if (window > padded) fail_with<shape_error>("a window of {} {} does not fit into {}", window, name, padded);
  return {before, after, (padded - window) / stride + 1};
}

/// Places windows of rows x columns over images of shape [batch, height, width, channels].
///
/// Errors  shape_error if `image` has another rank or no pixels, a window or a stride is 0, a window is
///         larger than the padded image, or padding is as large as the window.
window_grid place_windows(const shape& image, const std::array<std::size_t, 2>& window,
                          const std::array<std::size_t, 2>& stride, const padding& pad) {
  if (image.rank() != 4)
    fail_with<shape_error>("images are [batch, height, width, channels], not of rank {}", image.rank());
  if (image[1] == 0 || image[2] == 0) throw shape_error("an image has no pixels");
  if (window[0] == 0 || window[1] == 0) fail_with<shape_error>("a window of {}x{}", window[0], window[1]);
  if (stride[0] == 0 || stride[1] == 0) fail_with<shape_error>("a stride of {}x{}", stride[0], stride[1]);
  constexpr std::size_t most = std::size_t{1} << 31;
  if (std::max({window[0], window[1], stride[0], stride[1]}) > most)
    fail_with<shape_error>("windows of {}x{} every {}x{} pixels; at most {} are possible", window[0],
                           window[1], stride[0], stride[1], most);
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

/// The order of axes that a node of ONNX gives them: channels stand before rows and columns there.
using onnx_order = std::vector<std::int64_t>;

std::vector<onnx_attribute> onnx_windows(const window_grid& g) {
  const auto list = [](std::initializer_list<std::size_t> extents) {
    return std::vector<std::int64_t>(extents.begin(), extents.end());
  };
  return {{"kernel_shape", list({g.rows, g.columns})},
          {"strides", list({g.stride_rows, g.stride_columns})},
          {"pads", list({g.pad_top, g.pad_left, g.pad_bottom, g.pad_right})}};
}

shape y_dims(const convolution_shape& c) {
  return {c.windows.batch, c.windows.out_height, c.windows.out_width, c.out_channels};
}

struct convolution_attributes {
  convolution_options options{};
  void keep_options(archive& a) {
    a.version(1);
    a.field("stride", options.stride);
    a.field("padding", options.pad);
  }
  convolution_shape shape_of(const value_type& x, const value_type& w) const {
    if (x.type != dtype::float32 || w.type != dtype::float32)
      throw shape_error("images and weights are float32");
    if (w.dims.rank() != 4)
      fail_with<shape_error>("weights are [rows, columns, in, out], not of rank {}", w.dims.rank());
    const window_grid g = place_windows(x.dims, {w.dims[0], w.dims[1]}, options.stride, options.pad);
    if (g.channels != w.dims[2])
      fail_with<shape_error>("images of {} channels against weights for {}", g.channels, w.dims[2]);
    return {g, w.dims[3]};
  }
};

void require_gradient(const value_type& dy, const convolution_shape& c) {
  if (dy != value_type{y_dims(c), dtype::float32}) throw shape_error("expected the gradient of the result");
}

std::unique_ptr<executable> kernel_of(std::unique_ptr<convolution_plan> plan) {
  const std::size_t scratch_bytes = plan->scratch_bytes();
  return kernel([p = std::move(plan)](const stream& s,
                                      const call& c) { p->run(s, c.in(0), c.in(1), c.out(), c.scratch); },
                scratch_bytes);
}

/// The gradient with respect to the images. Inputs: dy, w.
struct data_gradient_kind : convolution_attributes {
  static constexpr std::string_view name = "conv2d_data_gradient";
  static constexpr std::size_t operands = 2;
  shape images{};
  void keep(archive& a) {
    keep_options(a);
    a.field("images", images);
  }
  std::vector<value_type> infer(type_list inputs) const {
    require_gradient(inputs[0], shape_with(inputs[1]));
    return {{images, dtype::float32}};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel_of(plan_convolution_data_gradient(shape_with(t.inputs[1]), t.where));
  }
  convolution_shape shape_with(const value_type& w) const { return shape_of({images, dtype::float32}, w); }
};

/// The gradient with respect to the weights. Inputs: x, dy.
struct weight_gradient_kind : convolution_attributes {
  static constexpr std::string_view name = "conv2d_weight_gradient";
  static constexpr std::size_t operands = 2;
  shape weights{};
  void keep(archive& a) {
    keep_options(a);
    a.field("weights", weights);
  }
  std::vector<value_type> infer(type_list inputs) const {
    require_gradient(inputs[1], shape_with(inputs[0]));
    return {{weights, dtype::float32}};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel_of(plan_convolution_weight_gradient(shape_with(t.inputs[0]), t.where));
  }
  convolution_shape shape_with(const value_type& x) const { return shape_of(x, {weights, dtype::float32}); }
};

struct convolution_kind : convolution_attributes {
  static constexpr std::string_view name = "conv2d";
  static constexpr std::size_t operands = 2;
  void keep(archive& a) { keep_options(a); }
  std::vector<value_type> infer(type_list inputs) const {
    return {{y_dims(shape_of(inputs[0], inputs[1])), dtype::float32}};
  }
  double more_work(type_list inputs, type_list outputs) const {
    const shape& w = inputs[1].dims;
    return static_cast<double>(outputs[0].dims.size()) * static_cast<double>(w[0] * w[1] * w[2]);
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    const value &x = d.inputs[0], &w = d.inputs[1], &dy = *d.dy[0];
    return {d.apply(made(data_gradient_kind{*this, x.dims()}), {dy, w}).front(),
            d.apply(made(weight_gradient_kind{*this, w.dims()}), {x, dy}).front()};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel_of(plan_convolution(shape_of(t.inputs[0], t.inputs[1]), t.where));
  }
  std::string describe() const {
    return fmt::format("stride {}x{}, {}", options.stride[0], options.stride[1], to_string(options.pad));
  }
  std::vector<std::string> to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list) const {
    const window_grid g = shape_of(inputs[0].type, inputs[1].type).windows;
    const std::string x = to.add("Transpose", {inputs[0].name}, {{"perm", onnx_order{0, 3, 1, 2}}});
    const std::string w = to.add("Transpose", {inputs[1].name}, {{"perm", onnx_order{3, 2, 0, 1}}});
    const std::string y = to.add("Conv", {x, w}, onnx_windows(g));
    return {to.add("Transpose", {y}, {{"perm", onnx_order{0, 2, 3, 1}}})};
  }
};

enum class pooling : std::uint8_t { max, average };

struct pooling_attributes {
  pooling how = pooling::max; ///< says the name
  pooling_options options{};
  void keep_options(archive& a) {
    a.version(1);
    a.field("window", options.window);
    a.field("stride", options.stride);
    a.field("padding", options.pad);
  }
  window_grid grid_of(const value_type& x) const {
    if (x.type != dtype::float32) throw shape_error("images are float32");
    return place_windows(x.dims, options.window, options.stride, options.pad);
  }
};

shape pooled_dims(const window_grid& g) { return {g.batch, g.out_height, g.out_width, g.channels}; }

/// Inputs: dy, and for max pooling the position chosen in each window.
struct pooling_gradient_kind : pooling_attributes {
  shape images{};
  std::string_view name() const {
    return how == pooling::max ? "max_pool_gradient" : "average_pool_gradient";
  }
  void keep(archive& a) {
    keep_options(a);
    a.field("images", images);
  }
  std::vector<value_type> infer(type_list inputs) const {
    require_operand_count(inputs, how == pooling::max ? 2 : 1);
    const shape pooled = pooled_dims(grid());
    if (inputs[0] != value_type{pooled, dtype::float32})
      throw shape_error("expected the gradient of the result");
    if (how == pooling::max && inputs[1] != value_type{pooled, dtype::int32})
      throw shape_error("expected a position for each window");
    return {{images, dtype::float32}};
  }
  std::unique_ptr<executable> prepare(const fixed_types&) const {
    return kernel([how = how, g = grid()](const stream& s, const call& c) {
      if (how == pooling::max)
        max_pool_gradient(s, g, c.in(0), c.in<std::int32_t>(1), c.out());
      else
        average_pool_gradient(s, g, c.in(0), c.out());
    });
  }
  window_grid grid() const { return grid_of({images, dtype::float32}); }
};

/// Outputs: y, and for max pooling the position chosen in each window.
struct pooling_kind : pooling_attributes {
  static constexpr std::size_t operands = 1;
  std::string_view name() const { return how == pooling::max ? "max_pool" : "average_pool"; }
  void keep(archive& a) { keep_options(a); }
  std::vector<value_type> infer(type_list inputs) const {
    const shape pooled = pooled_dims(grid_of(inputs[0]));
    if (how == pooling::average) return {{pooled, dtype::float32}};
    return {{pooled, dtype::float32}, {pooled, dtype::int32}};
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    std::vector<value> needed{*d.dy[0]};
    if (how == pooling::max) needed.push_back(d.outputs[1]);
    return {d.apply(made(pooling_gradient_kind{*this, d.inputs[0].dims()}), std::move(needed)).front()};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel([how = how, g = grid_of(t.inputs[0])](const stream& s, const call& c) {
      if (how == pooling::max)
        max_pool(s, g, c.in(0), c.out(0), c.out<std::int32_t>(1));
      else
        average_pool(s, g, c.in(0), c.out());
    });
  }
  std::string describe() const {
    return fmt::format("window {}x{}, stride {}x{}, {}", options.window[0], options.window[1],
                       options.stride[0], options.stride[1], to_string(options.pad));
  }
  /// Both leave out the padding of an average.
  std::vector<std::string> to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list) const {
    const std::string x = to.add("Transpose", {inputs[0].name}, {{"perm", onnx_order{0, 3, 1, 2}}});
    const std::string y =
        to.add(how == pooling::max ? "MaxPool" : "AveragePool", {x}, onnx_windows(grid_of(inputs[0].type)));
    return {to.add("Transpose", {y}, {{"perm", onnx_order{0, 2, 3, 1}}})};
  }
};

} // namespace

value conv2d(const value& x, const value& w, const convolution_options& options, std::source_location where) {
  return x.owner(where).apply_one(made(convolution_kind{{options}}), {x, w}, where);
}
value max_pool(const value& x, const pooling_options& options, std::source_location where) {
  return x.owner(where).apply_one(made(pooling_kind{{pooling::max, options}}), {x}, where);
}
value average_pool(const value& x, const pooling_options& options, std::source_location where) {
  return x.owner(where).apply_one(made(pooling_kind{{pooling::average, options}}), {x}, where);
}

void add_window_kinds(operation_registry& to) {
  add_kinds(to, convolution_kind(), data_gradient_kind(), weight_gradient_kind());
  for (const pooling how : {pooling::max, pooling::average})
    add_kinds(to, pooling_kind{{how}}, pooling_gradient_kind{{how}});
}

} // namespace mailgrad
