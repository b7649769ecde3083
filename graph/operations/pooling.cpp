#include <mailgrad/graph/operations.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/onnx_nodes.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/graph/travelling.hpp>
#include <mailgrad/kernels/pooling.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

namespace mailgrad {

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
