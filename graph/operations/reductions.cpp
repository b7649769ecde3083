#include <mailgrad/graph/operations.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/onnx_nodes.hpp>
#include <mailgrad/graph/operation.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/graph/operations/elementwise.hpp>
#include <mailgrad/graph/travelling.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/kernels/reduce.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mailgrad {

namespace {

using axis_mask = std::array<bool, shape::max_rank>;

void require_float(const value_type& t) {
  if (t.type != dtype::float32) throw shape_error("expected float32");
}

std::source_location line_of(const value& v) { return v.owner().of(v).where; }

class sum_executable : public executable, public bfloat16_form {
public:
  sum_executable(const sum_plan& plan, float scale) : plan_(plan), scale_(scale) {}
  void run(const stream& s, const call& c) override { sum(s, plan_, operand(c, 0), scale_, c.out()); }
  bool needs(std::size_t) const override { return false; }
  bool may_read(std::size_t) const override { return sums_rows(plan_); }

private:
  sum_plan plan_;
  float scale_;
};

class broadcast_to_executable : public executable {
public:
  explicit broadcast_to_executable(const broadcast_plan& plan) : plan_(plan) {}
  void run(const stream& s, const call& c) override {
    broadcast(s, elementwise_function::copy, plan_, c.in(0), c.in(0), c.out());
  }

private:
  broadcast_plan plan_;
};

/// Repeats x, read as if it had shape `source`, to shape `target`.
class broadcast_operation : public operation, public travelling<broadcast_operation> {
public:
  broadcast_operation() = default;
  void keep(archive& a) {
    a.version(1);
    a.field("source", source_);
    a.field("target", target_);
  }
  broadcast_operation(const shape& source, const shape& target) : source_(source), target_(target) {}

  std::string_view name() const noexcept override { return "broadcast_to"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 1);
    require_float(inputs[0]);
    if (inputs[0].dims.size() != source_.size())
      throw shape_error(fmt::format("does not have as many elements as {}", to_string(source_)));
    if (source_.rank() > target_.rank() || broadcast_shapes(source_, target_) != target_)
      throw shape_error(fmt::format("cannot be repeated to {}", to_string(target_)));
    return {{target_, dtype::float32}};
  }
  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override;
  std::unique_ptr<executable> prepare(std::span<const value_type>, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<broadcast_to_executable>(plan_broadcast(source_, source_, target_));
  }
  std::string describe() const override { return fmt::format("to {}", to_string(target_)); }

private:
  shape source_, target_;
};

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

/// A sum over some axes of x, times a factor.
class summing_operation : public operation {
public:
  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override;
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    const shape& x = inputs[0].dims;
    return std::make_unique<sum_executable>(plan_sum(x, summed(x)), scale(x));
  }

protected:
  virtual axis_mask summed(const shape& x) const = 0;
  virtual float scale(const shape&) const { return 1; }
};

enum class averaging : std::uint8_t { sum, mean };

/// The public operations: a sum or a mean over a list of axes, or over all axes.
class reduce_operation : public summing_operation, public onnx_form, public travelling<reduce_operation> {
public:
  explicit reduce_operation(averaging what, std::optional<std::vector<std::size_t>> axes = {},
                            summed_axes keep = summed_axes::dropped)
      : what_(what), axes_(std::move(axes)), keep_(keep) {}
  void keep(archive& a) {
    a.version(1);
    a.field("axes", axes_);
    a.choice("summed axes", keep_, summed_axes::kept_as_one);
  }

  std::string_view name() const noexcept override {
    return what_ == averaging::sum ? "reduce_sum" : "reduce_mean";
  }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override;
  std::string describe() const override;
  std::vector<std::string> to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                   std::span<const onnx_value>) const override;

protected:
  axis_mask summed(const shape& x) const override;
  float scale(const shape& x) const override;

private:
  averaging what_;
  std::optional<std::vector<std::size_t>> axes_;
  summed_axes keep_;
};

/// The reverse of a broadcast. The shape of x is `source` repeated; the result has as many elements as
/// `source`, and the shape `result`.
class sum_to_operation : public summing_operation, public travelling<sum_to_operation> {
public:
  sum_to_operation() = default;
  void keep(archive& a) {
    a.version(1);
    a.field("source", source_);
    a.field("result", result_);
  }
  sum_to_operation(const shape& source, const shape& result) : source_(source), result_(result) {}

  std::string_view name() const noexcept override { return "sum_to"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 1);
    require_float(inputs[0]);
    if (result_.size() != source_.size())
      throw shape_error(fmt::format("{} and {} differ in size", to_string(source_), to_string(result_)));
    const shape& x = inputs[0].dims;
    if (source_.rank() > x.rank() || broadcast_shapes(source_, x) != x)
      throw shape_error(fmt::format("is not a repetition of {}", to_string(source_)));
    return {{result_, dtype::float32}};
  }
  std::string describe() const override { return fmt::format("to {}", to_string(result_)); }

protected:
  axis_mask summed(const shape& x) const override;

private:
  shape source_, result_;
};

axis_mask reduce_operation::summed(const shape& x) const {
  axis_mask mask{};
  if (!axes_) mask.fill(true);
  for (const std::size_t axis : axes_.value_or(std::vector<std::size_t>{})) {
    if (axis >= x.rank())
      throw shape_error(fmt::format("there is no axis {}, the rank is {}", axis, x.rank()));
    if (mask[axis]) throw shape_error(fmt::format("axis {} is listed twice", axis));
    mask[axis] = true;
  }
  return mask;
}

std::vector<value_type> reduce_operation::infer(std::span<const value_type> inputs) const {
  require_operand_count(inputs, 1);
  require_float(inputs[0]);
  const shape& x = inputs[0].dims;
  const axis_mask mask = summed(x);
  return {{keep_ == summed_axes::kept_as_one ? with_ones(x, mask) : without(x, mask), dtype::float32}};
}

float reduce_operation::scale(const shape& x) const {
  if (what_ == averaging::sum) return 1;
  return static_cast<float>(without(x, summed(x)).size()) / static_cast<float>(x.size());
}

std::vector<std::string> reduce_operation::to_onnx(onnx_nodes& to, std::span<const onnx_value> inputs,
                                                   std::span<const onnx_value>) const {
  const shape& x = inputs[0].type.dims;
  const axis_mask mask = summed(x);
  std::vector<std::int64_t> axes;
  for (std::size_t axis = 0; axis < x.rank(); ++axis)
    if (mask[axis]) axes.push_back(static_cast<std::int64_t>(axis));
  if (axes.empty()) return {to.add("Identity", {inputs[0].name})};
  const onnx_attribute keep{"keepdims", keep_ == summed_axes::kept_as_one ? 1 : 0};
  if (what_ == averaging::sum) return {to.add("ReduceSum", {inputs[0].name, to.whole_numbers(axes)}, {keep})};
  return {to.add("ReduceMean", {inputs[0].name}, {{"axes", axes}, keep})};
}

std::string reduce_operation::describe() const {
  if (!axes_) return "all axes";
  return axes_->empty() ? std::string() : fmt::format("axis {}", fmt::join(*axes_, ", "));
}

axis_mask sum_to_operation::summed(const shape& x) const {
  axis_mask mask{};
  const std::size_t missing = x.rank() - source_.rank();
  for (std::size_t axis = 0; axis < x.rank(); ++axis)
    mask[axis] = axis < missing || (source_[axis - missing] == 1 && x[axis] != 1);
  return mask;
}

std::vector<adjoint> summing_operation::gradient(std::span<const value> inputs,
                                                 std::span<const value> outputs,
                                                 std::span<const std::optional<value>> dy) const {
  const std::source_location where = line_of(outputs[0]);
  const shape& x = inputs[0].dims();
  const value scaled = scale(x) == 1 ? *dy[0] : located(*dy[0], where) * scale(x);
  const auto repeat = std::make_shared<broadcast_operation>(with_ones(x, summed(x)), x);
  return {inputs[0].owner().apply_one(repeat, {scaled}, where)};
}

std::vector<adjoint> broadcast_operation::gradient(std::span<const value> inputs,
                                                   std::span<const value> outputs,
                                                   std::span<const std::optional<value>> dy) const {
  const auto sum = std::make_shared<sum_to_operation>(source_, inputs[0].dims());
  return {inputs[0].owner().apply_one(sum, {*dy[0]}, line_of(outputs[0]))};
}

value reduce(averaging what, const value& x, std::optional<std::vector<std::size_t>> axes, summed_axes keep,
             const std::source_location& where) {
  return x.owner(where).apply_one(std::make_shared<reduce_operation>(what, std::move(axes), keep), {x},
                                  where);
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
  return x.owner(where).apply_one(std::make_shared<broadcast_operation>(x.dims(), dims), {x}, where);
}

value sum_to(const value& x, const shape& dims, std::source_location where) {
  if (x.dims(where) == dims) return x;
  return x.owner(where).apply_one(std::make_shared<sum_to_operation>(dims, dims), {x}, where);
}

void add_reduction_kinds(operation_registry& to) {
  for (const averaging what : {averaging::sum, averaging::mean}) to.add(reduce_operation(what));
  to.add<broadcast_operation>();
  to.add<sum_to_operation>();
}

} // namespace mailgrad
