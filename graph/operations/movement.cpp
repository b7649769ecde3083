#include <mailgrad/files/archive.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/onnx_nodes.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/graph/travelling.hpp>
#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/shape.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

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

namespace {

static_assert(sizeof(float) == sizeof(std::int32_t), "slices copy integers as if they were floats");

void require_axis(const value_type& t, std::size_t axis) {
  if (axis >= t.dims.rank()) throw shape_error(fmt::format("there is no axis {}", axis));
}

void require_float_with_axis(const value_type& t, std::size_t axis) {
  if (t.type != dtype::float32) throw shape_error("elements must be float32");
  require_axis(t, axis);
}

shape with_extent(shape dims, std::size_t axis, std::size_t extent) {
  dims[axis] = extent;
  return dims;
}

/// One part of a whole along an axis: `length` steps from `begin` on.
struct slice_part {
  shape whole;
  std::size_t axis = 0, begin = 0, length = 0;

  void keep(archive& a) {
    a.field("whole", whole);
    a.field("axis", axis);
    a.field("begin", begin);
    a.field("length", length);
  }
  /// Errors  shape_error if the part does not lie in the whole.
  void require_inside() const {
    if (axis >= whole.rank()) throw shape_error(fmt::format("there is no axis {}", axis));
    if (begin > whole[axis] || length > whole[axis] - begin)
      throw shape_error(
          fmt::format("{} steps from {} on do not lie in extent {}", length, begin, whole[axis]));
  }

  shape dims() const { return with_extent(whole, axis, length); }
  strided_copy reader() const { return {dims(), places(), row_major(dims())}; }
  strided_copy writer() const { return {dims(), row_major(dims()), places()}; }

private:
  element_places places() const {
    element_places p = row_major(whole);
    p.offset = begin * p.steps[axis];
    return p;
  }
};

class slice_executable : public executable {
public:
  explicit slice_executable(const slice_part& p) : box_(p.reader()) {}
  void run(const stream& s, const call& c) override { box_.run(s, c.in(0), c.out()); }

private:
  strided_copy box_;
};

class slice_gradient_executable : public executable {
public:
  explicit slice_gradient_executable(const slice_part& p) : box_(p.writer()), size_(p.whole.size()) {}
  void run(const stream& s, const call& c) override { box_.run_into_zeros(s, c.in(0), c.out(), size_); }

private:
  strided_copy box_;
  std::size_t size_;
};

/// Makes zeros with one part that is the input.
class slice_gradient_operation : public operation, public travelling<slice_gradient_operation> {
public:
  slice_gradient_operation() = default;
  void keep(archive& a) {
    a.version(1);
    part_.keep(a);
  }
  explicit slice_gradient_operation(const slice_part& p) : part_(p) {}
  std::string_view name() const noexcept override { return "slice_gradient"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 1);
    part_.require_inside();
    if (inputs[0] != value_type{part_.dims(), dtype::float32})
      throw shape_error(fmt::format("expected float32 {}", to_string(part_.dims())));
    return {{part_.whole, dtype::float32}};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type>, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<slice_gradient_executable>(part_);
  }

private:
  slice_part part_;
};

class slice_operation : public operation, public onnx_form, public travelling<slice_operation> {
public:
  slice_operation() = default;
  void keep(archive& a) {
    a.version(1);
    a.field("axis", axis_);
    a.field("begin", begin_);
    a.field("end", end_);
  }
  slice_operation(std::size_t axis, std::size_t begin, std::size_t end)
      : axis_(axis), begin_(begin), end_(end) {}

  std::string_view name() const noexcept override { return "slice"; }
  std::string describe() const override { return fmt::format("axis {}, {} to {}", axis_, begin_, end_); }

  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 1);
    require_axis(inputs[0], axis_);
    const shape& dims = inputs[0].dims;
    if (begin_ > end_ || end_ > dims[axis_])
      throw shape_error(
          fmt::format("the range {} to {} does not lie in extent {}", begin_, end_, dims[axis_]));
    return {{with_extent(dims, axis_, end_ - begin_), inputs[0].type}};
  }

  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    if (inputs[0].type().type != dtype::float32) return {adjoint{}};
    graph& model = inputs[0].owner();
    return {model.apply_one(std::make_shared<slice_gradient_operation>(part_of(inputs[0].dims())), {*dy[0]},
                            model.of(outputs[0]).where)};
  }

  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<slice_executable>(part_of(inputs[0].dims));
  }

  std::vector<std::string> to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                   std::span<const onnx_value>) const override {
    const auto one = [&](std::size_t n) { return to.whole_numbers({static_cast<std::int64_t>(n)}); };
    return {to.add("Slice", {inputs[0].name, one(begin_), one(end_), one(axis_)})};
  }

private:
  slice_part part_of(const shape& whole) const { return {whole, axis_, begin_, end_ - begin_}; }

  std::size_t axis_ = 0, begin_ = 0, end_ = 0;
};

} // namespace

value slice(const value& x, std::size_t axis, std::size_t begin, std::size_t end,
            std::source_location where) {
  return x.owner(where).apply_one(std::make_shared<slice_operation>(axis, begin, end), {x}, where);
}

void add_slicing_kinds(operation_registry& to) {
  to.add<slice_operation>();
  to.add<slice_gradient_operation>();
}

namespace {

/// Parts that follow one another along `axis`, and their places in `whole`.
std::vector<slice_part> in_a_row(std::size_t axis, std::span<const value_type> types, const shape& whole) {
  std::vector<slice_part> parts;
  std::size_t begin = 0;
  for (const value_type& t : types) {
    parts.push_back({whole, axis, begin, t.dims[axis]});
    begin += t.dims[axis];
  }
  return parts;
}

class split_executable : public executable {
public:
  explicit split_executable(const std::vector<slice_part>& parts) {
    for (const slice_part& p : parts) boxes_.push_back(p.reader());
  }
  void run(const stream& s, const call& c) override {
    for (std::size_t i = 0; i < boxes_.size(); ++i) boxes_[i].run(s, c.in(0), c.out(i));
  }

private:
  std::vector<strided_copy> boxes_;
};

class concat_executable : public executable {
public:
  explicit concat_executable(const std::vector<slice_part>& parts) {
    for (const slice_part& p : parts) boxes_.push_back(p.writer());
  }
  void run(const stream& s, const call& c) override {
    for (std::size_t i = 0; i < boxes_.size(); ++i) boxes_[i].run(s, c.in(i), c.out());
  }

private:
  std::vector<strided_copy> boxes_;
};

class split_operation : public operation, public onnx_form, public travelling<split_operation> {
public:
  split_operation() = default;
  void keep(archive& a) {
    a.version(1);
    a.field("axis", axis_);
    a.field("lengths", lengths_);
  }
  split_operation(std::size_t axis, std::vector<std::size_t> lengths)
      : axis_(axis), lengths_(std::move(lengths)) {}

  std::string_view name() const noexcept override { return "split"; }
  std::string describe() const override {
    return fmt::format("axis {} into {}", axis_, fmt::join(lengths_, ", "));
  }

  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 1);
    require_float_with_axis(inputs[0], axis_);
    const shape& dims = inputs[0].dims;
    const auto too_long = [&](std::size_t length) { return length > dims[axis_]; }; // a sum could overflow
    if (std::ranges::any_of(lengths_, too_long) ||
        std::accumulate(lengths_.begin(), lengths_.end(), std::size_t{0}) != dims[axis_])
      throw shape_error(
          fmt::format("the lengths {} do not add up to extent {}", fmt::join(lengths_, ", "), dims[axis_]));
    std::vector<value_type> parts;
    parts.reserve(lengths_.size());
    for (const std::size_t length : lengths_)
      parts.push_back({with_extent(dims, axis_, length), dtype::float32});
    return parts;
  }

  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    graph& model = inputs[0].owner();
    const auto where = model.of(outputs[0]).where;
    std::vector<value> parts;
    for (std::size_t i = 0; i < dy.size(); ++i)
      parts.push_back(dy[i] ? *dy[i] : model.constant(tensor(outputs[i].dims()), where));
    return {concat(parts, axis_, where)};
  }

  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type> outputs,
                                      device_kind) const override {
    return std::make_unique<split_executable>(in_a_row(axis_, outputs, inputs[0].dims));
  }

  std::vector<std::string> to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                   std::span<const onnx_value>) const override {
    const std::vector<std::int64_t> lengths(lengths_.begin(), lengths_.end());
    return to.add_several("Split", {inputs[0].name, to.whole_numbers(lengths)}, lengths.size(),
                          {{"axis", static_cast<std::int64_t>(axis_)}});
  }

private:
  std::size_t axis_ = 0;
  std::vector<std::size_t> lengths_;
};

class concat_operation : public operation, public onnx_form, public travelling<concat_operation> {
public:
  explicit concat_operation(std::size_t axis = 0) : axis_(axis) {}
  void keep(archive& a) {
    a.version(1);
    a.field("axis", axis_);
  }

  std::string_view name() const noexcept override { return "concat"; }
  std::string describe() const override { return fmt::format("axis {}", axis_); }
  std::vector<std::string> to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                   std::span<const onnx_value>) const override {
    std::vector<std::string> names;
    std::ranges::transform(inputs, std::back_inserter(names), &onnx_value::name);
    return {to.add("Concat", std::move(names), {{"axis", static_cast<std::int64_t>(axis_)}})};
  }

  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    if (inputs.empty()) throw shape_error("there is nothing to put together");
    shape whole = inputs[0].dims;
    if (axis_ < whole.rank()) whole[axis_] = 0;
    for (const value_type& t : inputs) {
      require_float_with_axis(t, axis_);
      if (t.dims.rank() != whole.rank() ||
          with_extent(t.dims, axis_, 0) != with_extent(inputs[0].dims, axis_, 0))
        throw shape_error(fmt::format("shapes differ in more than axis {}", axis_));
      whole[axis_] += t.dims[axis_];
    }
    return {{whole, dtype::float32}};
  }

  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    std::vector<std::size_t> lengths;
    for (const value& v : inputs) lengths.push_back(v.dims()[axis_]);
    const auto parts = split(*dy[0], axis_, lengths, inputs[0].owner().of(outputs[0]).where);
    return {parts.begin(), parts.end()};
  }

  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type> outputs,
                                      device_kind) const override {
    return std::make_unique<concat_executable>(in_a_row(axis_, inputs, outputs[0].dims));
  }

private:
  std::size_t axis_;
};

} // namespace

std::vector<value> split(const value& x, std::size_t axis, const std::vector<std::size_t>& lengths,
                         std::source_location where) {
  return x.owner(where).apply(std::make_shared<split_operation>(axis, lengths), {x}, where);
}

value concat(std::span<const value> parts, std::size_t axis, std::source_location where) {
  if (parts.empty())
    throw graph_error(fmt::format("{}: concat: there is nothing to put together", line_of(where)));
  return parts[0].owner(where).apply_one(std::make_shared<concat_operation>(axis),
                                         {parts.begin(), parts.end()}, where);
}

value stack(std::span<const value> parts, std::size_t axis, std::source_location where) {
  std::vector<value> made;
  for (const value& v : parts) {
    const shape& dims = v.dims(where);
    std::vector<std::size_t> extents(dims.begin(), dims.end());
    extents.insert(extents.begin() + static_cast<std::ptrdiff_t>(std::min(axis, extents.size())), 1);
    made.push_back(reshape(v, shape(extents), where));
  }
  return concat(made, axis, where);
}

void add_joining_kinds(operation_registry& to) {
  to.add<split_operation>();
  to.add<concat_operation>();
}

} // namespace mailgrad
