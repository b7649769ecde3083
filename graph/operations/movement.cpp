#include <mailgrad/graph/operations.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/onnx_nodes.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/graph/travelling.hpp>
#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace mailgrad {

namespace {

/// The same memory under another shape.
class view_operation : public operation {
public:
  bool is_view() const noexcept override { return true; }
  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    return {reshape(*dy[0], inputs[0].dims(), inputs[0].owner().of(outputs[0]).where)};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type>, std::span<const value_type>,
                                      device_kind) const override {
    return nullptr;
  }
};

/// A reshape to the extents of `y`. One of them may depend on the batch: it follows from the others.
std::vector<std::string> reshaped_in(onnx_nodes& to, const onnx_value& x, const onnx_value& y) {
  const shape& dims = y.type.dims;
  if (std::ranges::count(y.varies, true) > 1 || dims.size() == 0) return {};
  std::vector<std::int64_t> extents(dims.begin(), dims.end());
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if (y.varies[axis]) extents[axis] = -1;
  return {to.add("Reshape", {x.name, to.whole_numbers(extents)})};
}

class reshape_operation : public view_operation, public onnx_form, public travelling<reshape_operation> {
public:
  reshape_operation() = default;
  explicit reshape_operation(const shape& dims) : dims_(dims) {}
  void keep(archive& a) {
    a.version(1);
    a.field("dims", dims_);
  }
  std::string_view name() const noexcept override { return "reshape"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 1);
    if (inputs[0].dims.size() != dims_.size())
      throw shape_error(fmt::format("{} elements do not make {}", inputs[0].dims.size(), to_string(dims_)));
    return {{dims_, inputs[0].type}};
  }
  std::vector<std::string> to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                   std::span<const onnx_value> outputs) const override {
    return reshaped_in(to, inputs[0], outputs[0]);
  }

private:
  shape dims_;
};

class squeeze_operation : public view_operation, public onnx_form, public travelling<squeeze_operation> {
public:
  explicit squeeze_operation(std::size_t axis = 0) : axis_(axis) {}
  void keep(archive& a) {
    a.version(1);
    a.field("axis", axis_);
  }
  std::string_view name() const noexcept override { return "squeeze"; }
  std::string describe() const override { return fmt::format("axis {}", axis_); }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 1);
    const shape& dims = inputs[0].dims;
    if (axis_ >= dims.rank()) throw shape_error(fmt::format("there is no axis {}", axis_));
    if (dims[axis_] != 1) throw shape_error(fmt::format("axis {} has extent {}, not 1", axis_, dims[axis_]));
    std::vector<std::size_t> rest(dims.begin(), dims.end());
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis_));
    return {{shape(rest), inputs[0].type}};
  }
  std::vector<std::string> to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                   std::span<const onnx_value> outputs) const override {
    return reshaped_in(to, inputs[0], outputs[0]);
  }

private:
  std::size_t axis_;
};

class copy_executable : public executable {
public:
  explicit copy_executable(const strided_copy& box) : box_(box) {}
  void run(const stream& s, const call& c) override { box_.run(s, c.in(0), c.out()); }

private:
  strided_copy box_;
};

class transpose_operation : public operation, public onnx_form, public travelling<transpose_operation> {
public:
  transpose_operation() = default;
  void keep(archive& a) {
    a.version(1);
    a.field("order", order_);
  }
  explicit transpose_operation(std::vector<std::size_t> order) : order_(std::move(order)) {}

  std::string_view name() const noexcept override { return "transpose"; }
  std::string describe() const override { return fmt::format("axes {}", fmt::join(order_, ", ")); }

  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 1);
    if (inputs[0].type != dtype::float32) throw shape_error("elements must be float32");
    std::vector<std::size_t> axes(inputs[0].dims.rank());
    std::iota(axes.begin(), axes.end(), std::size_t{0});
    if (!std::ranges::is_permutation(axes, order_))
      throw shape_error(fmt::format("the order ({}) does not name each axis once", fmt::join(order_, ", ")));
    shape dims = inputs[0].dims;
    for (std::size_t i = 0; i < order_.size(); ++i) dims[i] = inputs[0].dims[order_[i]];
    return {{dims, dtype::float32}};
  }

  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    std::vector<std::size_t> back(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) back[order_[i]] = i;
    return {transpose(*dy[0], back, inputs[0].owner().of(outputs[0]).where)};
  }

  std::vector<std::string> to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                   std::span<const onnx_value>) const override {
    return {to.add("Transpose", {inputs[0].name},
                   {{"perm", std::vector<std::int64_t>(order_.begin(), order_.end())}})};
  }

  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type> outputs,
                                      device_kind) const override {
    const element_places x = row_major(inputs[0].dims);
    element_places from;
    for (std::size_t i = 0; i < order_.size(); ++i) from.steps[i] = x.steps[order_[i]];
    const shape& dims = outputs[0].dims;
    return std::make_unique<copy_executable>(strided_copy(dims, from, row_major(dims)));
  }

private:
  std::vector<std::size_t> order_;
};

} // namespace

value reshape(const value& x, const shape& dims, std::source_location where) {
  return x.owner(where).apply_one(std::make_shared<reshape_operation>(dims), {x}, where);
}

value squeeze(const value& x, std::size_t axis, std::source_location where) {
  return x.owner(where).apply_one(std::make_shared<squeeze_operation>(axis), {x}, where);
}

value transpose(const value& x, std::source_location where) {
  std::vector<std::size_t> order(x.dims(where).rank());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return transpose(x, order, where);
}

value transpose(const value& x, const std::vector<std::size_t>& order, std::source_location where) {
  return x.owner(where).apply_one(std::make_shared<transpose_operation>(order), {x}, where);
}

void add_movement_kinds(operation_registry& to) {
  to.add<reshape_operation>();
  to.add<squeeze_operation>();
  to.add<transpose_operation>();
}

} // namespace mailgrad
