#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/kinds.hpp>
#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <algorithm>
#include <iterator>
#include <numeric>

namespace mailgrad {
namespace {

struct view_attributes {
  static constexpr std::size_t operands = 1;
  static constexpr bool is_view = true;
  std::vector<adjoint> gradient(const differentiated& d) const {
    return {reshape(*d.dy[0], d.inputs[0].dims(), d.where())};
  }
  /// A reshape to the extents of the output. One of them may depend on the batch: it follows from the others.
  std::vector<std::string> to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list outputs) const {
    const onnx_value& y = outputs[0];
    const shape& dims = y.type.dims;
    if (std::ranges::count(y.varies, true) > 1 || dims.size() == 0) return {};
    std::vector<std::int64_t> extents(dims.begin(), dims.end());
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      if (y.varies[axis]) extents[axis] = -1;
    return {to.add("Reshape", {inputs[0].name, to.whole_numbers(extents)})};
  }
};

struct reshape_kind : view_attributes {
  static constexpr std::string_view name = "reshape";
  shape dims{};
  void keep(archive& a) { keep_attributes(a, "dims", dims); }
  std::vector<value_type> infer(type_list inputs) const {
    if (inputs[0].dims.size() != dims.size())
      fail_with<shape_error>("{} elements do not make {}", inputs[0].dims.size(), to_string(dims));
    return {{dims, inputs[0].type}};
  }
};

struct squeeze_kind : view_attributes {
  static constexpr std::string_view name = "squeeze";
  std::size_t axis = 0;
  void keep(archive& a) { keep_attributes(a, "axis", axis); }
  std::string describe() const { return fmt::format("axis {}", axis); }
  std::vector<value_type> infer(type_list inputs) const {
    const shape& dims = inputs[0].dims;
    if (axis >= dims.rank()) fail_with<shape_error>("there is no axis {}", axis);
    if (dims[axis] != 1) fail_with<shape_error>("axis {} has extent {}, not 1", axis, dims[axis]);
    std::vector<std::size_t> rest(dims.begin(), dims.end());
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis));
    return {{shape(rest), inputs[0].type}};
  }
};

std::unique_ptr<executable> kernel_of(const strided_copy& box) {
  return kernel([box](const stream& s, const call& c) { box.run(s, c.in(0), c.out()); });
}

struct transpose_kind {
  static constexpr std::string_view name = "transpose";
  static constexpr std::size_t operands = 1;
  std::vector<std::size_t> order{};
  void keep(archive& a) { keep_attributes(a, "order", order); }
  std::string describe() const { return fmt::format("axes {}", fmt::join(order, ", ")); }
  std::vector<value_type> infer(type_list inputs) const {
    if (inputs[0].type != dtype::float32) throw shape_error("elements must be float32");
    std::vector<std::size_t> axes(inputs[0].dims.rank());
    std::iota(axes.begin(), axes.end(), std::size_t{0});
    if (!std::ranges::is_permutation(axes, order))
      fail_with<shape_error>("the order ({}) does not name each axis once", fmt::join(order, ", "));
    shape dims = inputs[0].dims;
    for (std::size_t i = 0; i < order.size(); ++i) dims[i] = inputs[0].dims[order[i]];
    return {{dims, dtype::float32}};
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    std::vector<std::size_t> back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) back[order[i]] = i;
    return {transpose(*d.dy[0], back, d.where())};
  }
  std::vector<std::string> to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list) const {
    return {to.add("Transpose", {inputs[0].name},
                   {{"perm", std::vector<std::int64_t>(order.begin(), order.end())}})};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    const element_places x = row_major(t.inputs[0].dims);
    element_places from;
    for (std::size_t i = 0; i < order.size(); ++i) from.steps[i] = x.steps[order[i]];
    const shape& dims = t.outputs[0].dims;
    return kernel_of(strided_copy(dims, from, row_major(dims)));
  }
};

static_assert(sizeof(float) == sizeof(std::int32_t), "slices copy integers as if they were floats");

void require_axis(const value_type& t, std::size_t axis) {
  if (axis >= t.dims.rank()) fail_with<shape_error>("there is no axis {}", axis);
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

  /// Errors  shape_error if the part does not lie in the whole.
  void require_inside() const {
    if (axis >= whole.rank()) fail_with<shape_error>("there is no axis {}", axis);
    if (begin > whole[axis] || length > whole[axis] - begin)
      fail_with<shape_error>("{} steps from {} on do not lie in extent {}", length, begin, whole[axis]);
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

/// Makes zeros with one part that is the input.
struct slice_gradient_kind {
  static constexpr std::string_view name = "slice_gradient";
  static constexpr std::size_t operands = 1;
  slice_part part{};
  void keep(archive& a) {
    keep_attributes(a, "whole", part.whole, "axis", part.axis, "begin", part.begin, "length", part.length);
  }
  std::vector<value_type> infer(type_list inputs) const {
    part.require_inside();
    if (inputs[0] != value_type{part.dims(), dtype::float32})
      fail_with<shape_error>("expected float32 {}", to_string(part.dims()));
    return {{part.whole, dtype::float32}};
  }
  std::unique_ptr<executable> prepare(const fixed_types&) const {
    return kernel([box = part.writer(), size = part.whole.size()](const stream& s, const call& c) {
      box.run_into_zeros(s, c.in(0), c.out(), size);
    });
  }
};

struct slice_kind {
  static constexpr std::string_view name = "slice";
  static constexpr std::size_t operands = 1;
  std::size_t axis = 0, begin = 0, end = 0;
  void keep(archive& a) { keep_attributes(a, "axis", axis, "begin", begin, "end", end); }
  std::string describe() const { return fmt::format("axis {}, {} to {}", axis, begin, end); }
  std::vector<value_type> infer(type_list inputs) const {
    require_axis(inputs[0], axis);
    const shape& dims = inputs[0].dims;
    if (begin > end || end > dims[axis])
      fail_with<shape_error>("the range {} to {} does not lie in extent {}", begin, end, dims[axis]);
    return {{with_extent(dims, axis, end - begin), inputs[0].type}};
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    if (d.inputs[0].type().type != dtype::float32) return {adjoint{}};
    return {d.apply(made(slice_gradient_kind{part_of(d.inputs[0].dims())}), {*d.dy[0]}).front()};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel_of(part_of(t.inputs[0].dims).reader());
  }
  std::vector<std::string> to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list) const {
    const auto one = [&](std::size_t n) { return to.whole_numbers({static_cast<std::int64_t>(n)}); };
    return {to.add("Slice", {inputs[0].name, one(begin), one(end), one(axis)})};
  }
  slice_part part_of(const shape& whole) const { return {whole, axis, begin, end - begin}; }
};

/// What copies parts that follow one another along `axis` of a whole, by the places of each.
std::vector<strided_copy> in_a_row(std::size_t axis, type_list types, const shape& whole,
                                   strided_copy (slice_part::*copy)() const) {
  std::vector<strided_copy> boxes;
  std::size_t begin = 0;
  for (const value_type& t : types) {
    boxes.push_back((slice_part{whole, axis, begin, t.dims[axis]}.*copy)());
    begin += t.dims[axis];
  }
  return boxes;
}

struct split_kind {
  static constexpr std::string_view name = "split";
  static constexpr std::size_t operands = 1;
  std::size_t axis = 0;
  std::vector<std::size_t> lengths{};
  void keep(archive& a) { keep_attributes(a, "axis", axis, "lengths", lengths); }
  std::string describe() const { return fmt::format("axis {} into {}", axis, fmt::join(lengths, ", ")); }
  std::vector<value_type> infer(type_list inputs) const {
    require_float_with_axis(inputs[0], axis);
    const shape& dims = inputs[0].dims;
    const auto too_long = [&](std::size_t length) { return length > dims[axis]; }; // a sum could overflow
    if (std::ranges::any_of(lengths, too_long) ||
        std::accumulate(lengths.begin(), lengths.end(), std::size_t{0}) != dims[axis])
      fail_with<shape_error>("the lengths {} do not add up to extent {}", fmt::join(lengths, ", "),
                             dims[axis]);
    std::vector<value_type> parts;
    parts.reserve(lengths.size());
    for (const std::size_t length : lengths)
      parts.push_back({with_extent(dims, axis, length), dtype::float32});
    return parts;
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    graph& model = d.inputs[0].owner();
    std::vector<value> parts;
    for (std::size_t i = 0; i < d.dy.size(); ++i)
      parts.push_back(d.dy[i] ? *d.dy[i] : model.constant(tensor(d.outputs[i].dims()), d.where()));
    return {concat(parts, axis, d.where())};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel([boxes = in_a_row(axis, t.outputs, t.inputs[0].dims, &slice_part::reader)](const stream& s,
                                                                                             const call& c) {
      for (std::size_t i = 0; i < boxes.size(); ++i) boxes[i].run(s, c.in(0), c.out(i));
    });
  }
  std::vector<std::string> to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list) const {
    const std::vector<std::int64_t> whole(lengths.begin(), lengths.end());
    return to.add_several("Split", {inputs[0].name, to.whole_numbers(whole)}, whole.size(),
                          {{"axis", static_cast<std::int64_t>(axis)}});
  }
};

struct concat_kind {
  static constexpr std::string_view name = "concat";
  std::size_t axis = 0;
  void keep(archive& a) { keep_attributes(a, "axis", axis); }
  std::string describe() const { return fmt::format("axis {}", axis); }
  std::vector<value_type> infer(type_list inputs) const {
    if (inputs.empty()) throw shape_error("there is nothing to put together");
    shape whole = inputs[0].dims;
    if (axis < whole.rank()) whole[axis] = 0;
    for (const value_type& t : inputs) {
      require_float_with_axis(t, axis);
      if (t.dims.rank() != whole.rank() ||
          with_extent(t.dims, axis, 0) != with_extent(inputs[0].dims, axis, 0))
        fail_with<shape_error>("shapes differ in more than axis {}", axis);
      whole[axis] += t.dims[axis];
    }
    return {{whole, dtype::float32}};
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    std::vector<std::size_t> lengths;
    for (const value& v : d.inputs) lengths.push_back(v.dims()[axis]);
    const auto parts = split(*d.dy[0], axis, lengths, d.where());
    return {parts.begin(), parts.end()};
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel([boxes = in_a_row(axis, t.inputs, t.outputs[0].dims, &slice_part::writer)](const stream& s,
                                                                                             const call& c) {
      for (std::size_t i = 0; i < boxes.size(); ++i) boxes[i].run(s, c.in(i), c.out());
    });
  }
  std::vector<std::string> to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list) const {
    std::vector<std::string> names;
    std::ranges::transform(inputs, std::back_inserter(names), &onnx_value::name);
    return {to.add("Concat", std::move(names), {{"axis", static_cast<std::int64_t>(axis)}})};
  }
};

} // namespace

value reshape(const value& x, const shape& dims, std::source_location where) {
  return x.owner(where).apply_one(made(reshape_kind{{}, dims}), {x}, where);
}
value squeeze(const value& x, std::size_t axis, std::source_location where) {
  return x.owner(where).apply_one(made(squeeze_kind{{}, axis}), {x}, where);
}

value transpose(const value& x, std::source_location where) {
  std::vector<std::size_t> order(x.dims(where).rank());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return transpose(x, order, where);
}

value transpose(const value& x, const std::vector<std::size_t>& order, std::source_location where) {
  return x.owner(where).apply_one(made(transpose_kind{order}), {x}, where);
}
value slice(const value& x, std::size_t axis, std::size_t begin, std::size_t end,
            std::source_location where) {
  return x.owner(where).apply_one(made(slice_kind{axis, begin, end}), {x}, where);
}

std::vector<value> split(const value& x, std::size_t axis, const std::vector<std::size_t>& lengths,
                         std::source_location where) {
  return x.owner(where).apply(made(split_kind{axis, lengths}), {x}, where);
}

value concat(std::span<const value> parts, std::size_t axis, std::source_location where) {
  if (parts.empty()) fail_with<graph_error>("{}: concat: there is nothing to put together", line_of(where));
  return parts[0].owner(where).apply_one(made(concat_kind{axis}), {parts.begin(), parts.end()}, where);
}

value stack(std::span<const value> parts, std::size_t axis, std::source_location where) {
  std::vector<value> made_longer;
  for (const value& v : parts) {
    const shape& dims = v.dims(where);
    std::vector<std::size_t> extents(dims.begin(), dims.end());
    extents.insert(extents.begin() + static_cast<std::ptrdiff_t>(std::min(axis, extents.size())), 1);
    made_longer.push_back(reshape(v, shape(extents), where));
  }
  return concat(made_longer, axis, where);
}

void add_movement_kinds(operation_registry& to) {
  add_kinds(to, reshape_kind(), squeeze_kind(), transpose_kind(), slice_kind(), slice_gradient_kind(),
            split_kind(), concat_kind());
}

} // namespace mailgrad
