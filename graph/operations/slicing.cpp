#include <mailgrad/graph/operations/slicing.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/onnx_nodes.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/graph/operations/slice_part.hpp>

#include <fmt/format.h>

#include <string>
#include <vector>

namespace mailgrad {

namespace {

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

} // namespace mailgrad
