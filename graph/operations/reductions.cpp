#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/elementwise.hpp>
#include <mailgrad/kernels/reduce.hpp>
#include <mailgrad/tensor/fail_with.hpp>

namespace mailgrad {
namespace {

using axis_mask = std::array<bool, shape::max_rank>;

void require_float(const value_type& t) {
  if (t.type != dtype::float32) throw shape_error("expected float32");
}

/// `dims` with every summed axis kept as 1.
shape with_ones(shape dims, const axis_mask& summed) {
  for (std::size_t axis = 0; axis < dims.rank(); ++axis)
    if (summed[axis]) dims[axis] = 1;
  return dims;
}

shape without(const shape& dims, const axis_mask& summed) {
  std::vector<std::size_t> left;
  for (std::size_t axis = 0; axis < dims.rank(); ++axis)
    if (!summed[axis]) left.push_back(dims[axis]);
  return shape(left);
}

std::unique_ptr<executable> kernel_of(const shape& x, const axis_mask& summed, float scale = 1) {
  const sum_plan plan = plan_sum(x, summed);
  return kernel({.operands = sums_rows(plan) ? 1U : 0U},
                [plan, scale](const stream& s, const call& c, const auto& numbers) {
                  sum(s, plan, numbers.operand(c, 0), scale, c.out());
                });
}

/// The reverse of a broadcast. The shape of x is `source` repeated; the result has as many elements as
/// `source`, and the shape `result`.
struct sum_to_kind {
  static constexpr std::string_view name = "sum_to";
  static constexpr std::size_t operands = 1;
  shape source{}, result{};
  void keep(archive& a) { keep_attributes(a, "source", source, "result", result); }
  std::vector<value_type> infer(type_list inputs) const {
    require_float(inputs[0]);
    if (result.size() != source.size())
      fail_with<shape_error>("{} and {} differ in size", to_string(source), to_string(result));
    const shape& x = inputs[0].dims;
    if (source.rank() > x.rank() || broadcast_shapes(source, x) != x)
      fail_with<shape_error>("is not a repetition of {}", to_string(source));
    return {{result, dtype::float32}};
  }
  std::string describe() const { return fmt::format("to {}", to_string(result)); }
  std::vector<adjoint> gradient(const differentiated& d) const;
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    return kernel_of(t.inputs[0].dims, summed(t.inputs[0].dims));
  }
  axis_mask summed(const shape& x) const {
    axis_mask mask{};
    const std::size_t missing = x.rank() - source.rank();
    for (std::size_t axis = 0; axis < x.rank(); ++axis)
      mask[axis] = axis < missing || (source[axis - missing] == 1 && x[axis] != 1);
    return mask;
  }
};

/// Repeats x, read as if it had shape `source`, to shape `target`.
struct broadcast_kind {
  static constexpr std::string_view name = "broadcast_to";
  static constexpr std::size_t operands = 1;
  shape source{}, target{};
  void keep(archive& a) { keep_attributes(a, "source", source, "target", target); }
  std::vector<value_type> infer(type_list inputs) const {
    require_float(inputs[0]);
    if (inputs[0].dims.size() != source.size())
      fail_with<shape_error>("does not have as many elements as {}", to_string(source));
    if (source.rank() > target.rank() || broadcast_shapes(source, target) != target)
      fail_with<shape_error>("cannot be repeated to {}", to_string(target));
    return {{target, dtype::float32}};
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    return {d.apply(made(sum_to_kind{source, d.inputs[0].dims()}), {*d.dy[0]}).front()};
  }
  std::unique_ptr<executable> prepare(const fixed_types&) const {
    return kernel([plan = plan_broadcast(source, source, target)](const stream& s, const call& c) {
      broadcast(s, elementwise_function::copy, plan, c.in(0), c.in(0), c.out());
    });
  }
  std::string describe() const { return fmt::format("to {}", to_string(target)); }
};

/// The gradient of a sum over these axes, times a factor.
std::vector<adjoint> repeated(const differentiated& d, const axis_mask& summed, float scale = 1) {
  const shape& x = d.inputs[0].dims();
  const value scaled = scale == 1 ? *d.dy[0] : located(*d.dy[0], d.where()) * scale;
  return {d.apply(made(broadcast_kind{with_ones(x, summed), x}), {scaled}).front()};
}

std::vector<adjoint> sum_to_kind::gradient(const differentiated& d) const {
  return repeated(d, summed(d.inputs[0].dims()));
}

enum class averaging : std::uint8_t { sum, mean };

/// The public operations: a sum or a mean over a list of axes, or over all axes.
struct reduce_kind {
  static constexpr std::size_t operands = 1;
  averaging what = averaging::sum; ///< says the name
  std::optional<std::vector<std::size_t>> axes{};
  summed_axes keep_as = summed_axes::dropped;
  std::string_view name() const { return what == averaging::sum ? "reduce_sum" : "reduce_mean"; }
  void keep(archive& a) {
    a.version(1);
    a.field("axes", axes);
    a.choice("summed axes", keep_as, summed_axes::kept_as_one);
  }
  std::vector<value_type> infer(type_list inputs) const {
    require_float(inputs[0]);
    const shape& x = inputs[0].dims;
    const axis_mask mask = summed(x);
    return {{keep_as == summed_axes::kept_as_one ? with_ones(x, mask) : without(x, mask), dtype::float32}};
  }
  std::vector<adjoint> gradient(const differentiated& d) const {
    const shape& x = d.inputs[0].dims();
    return repeated(d, summed(x), scale(x));
  }
  std::unique_ptr<executable> prepare(const fixed_types& t) const {
    const shape& x = t.inputs[0].dims;
    return kernel_of(x, summed(x), scale(x));
  }
  std::string describe() const {
    if (!axes) return "all axes";
    return axes->empty() ? std::string() : fmt::format("axis {}", fmt::join(*axes, ", "));
  }
  std::vector<std::string> to_onnx(onnx_nodes& to, onnx_list inputs, onnx_list) const {
    const shape& x = inputs[0].type.dims;
    const axis_mask mask = summed(x);
    std::vector<std::int64_t> list;
    for (std::size_t axis = 0; axis < x.rank(); ++axis)
      if (mask[axis]) list.push_back(static_cast<std::int64_t>(axis));
    if (list.empty()) return {to.add("Identity", {inputs[0].name})};
    const onnx_attribute kept_dims{"keepdims", keep_as == summed_axes::kept_as_one ? 1 : 0};
    if (what == averaging::sum)
      return {to.add("ReduceSum", {inputs[0].name, to.whole_numbers(list)}, {kept_dims})};
    return {to.add("ReduceMean", {inputs[0].name}, {{"axes", list}, kept_dims})};
  }

  axis_mask summed(const shape& x) const {
    axis_mask mask{};
    if (!axes) mask.fill(true);
    for (const std::size_t axis : axes.value_or(std::vector<std::size_t>{})) {
      if (axis >= x.rank()) fail_with<shape_error>("there is no axis {}, the rank is {}", axis, x.rank());
      if (mask[axis]) fail_with<shape_error>("axis {} is listed twice", axis);
      mask[axis] = true;
    }
    return mask;
  }
  float scale(const shape& x) const {
    if (what == averaging::sum) return 1;
    return static_cast<float>(without(x, summed(x)).size()) / static_cast<float>(x.size());
  }
};

value reduce(averaging what, const value& x, std::optional<std::vector<std::size_t>> axes, summed_axes keep,
             const std::source_location& where) {
  return x.owner(where).apply_one(made(reduce_kind{what, std::move(axes), keep}), {x}, where);
}

} // namespace

value reduce_sum(const value& x, std::source_location where) {
  return reduce(averaging::sum, x, std::nullopt, summed_axes::dropped, where);
}
value reduce_sum(const value& x, const std::vector<std::size_t>& axes, summed_axes keep,
                 std::source_location where) {
  return reduce(averaging::sum, x, axes, keep, where);
}
value reduce_mean(const value& x, std::source_location where) {
  return reduce(averaging::mean, x, std::nullopt, summed_axes::dropped, where);
}
value reduce_mean(const value& x, const std::vector<std::size_t>& axes, summed_axes keep,
                  std::source_location where) {
  return reduce(averaging::mean, x, axes, keep, where);
}

value broadcast_to(const value& x, const shape& dims, std::source_location where) {
  if (x.dims(where) == dims) return x;
  return x.owner(where).apply_one(made(broadcast_kind{x.dims(), dims}), {x}, where);
}

value sum_to(const value& x, const shape& dims, std::source_location where) {
  if (x.dims(where) == dims) return x;
  return x.owner(where).apply_one(made(sum_to_kind{dims, dims}), {x}, where);
}

void add_reduction_kinds(operation_registry& to) {
  add_kinds(to, reduce_kind{averaging::sum}, reduce_kind{averaging::mean}, broadcast_kind(), sum_to_kind());
}

} // namespace mailgrad
