#include <mailgrad/graph/operations/cross_entropy.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/kernels/cross_entropy.hpp>
#include <mailgrad/tensor/error.hpp>

#include <algorithm>

namespace mailgrad {

namespace {

class cross_entropy_executable : public executable {
public:
  explicit cross_entropy_executable(const shape& logits)
      : columns_(logits.back()), rows_(logits.size() / columns_) {}
  void run(const stream& s, const call& c) override {
    cross_entropy(s, c.in(0), c.in<std::int32_t>(1), c.out(0), c.out(1), rows_, columns_);
  }

private:
  std::size_t columns_, rows_;
};

class cross_entropy_gradient_executable : public executable {
public:
  explicit cross_entropy_gradient_executable(const shape& logits)
      : columns_(logits.back()), rows_(logits.size() / columns_) {}
  void run(const stream& s, const call& c) override {
    cross_entropy_gradient(s, c.in(0), c.in<std::int32_t>(1), c.in(2), c.out(), rows_, columns_);
  }

private:
  std::size_t columns_, rows_;
};

void require_labelled(const value_type& logits, const value_type& labels) {
  if (logits.type != dtype::float32) throw shape_error("expected float32 logits");
  if (labels.type != dtype::int32) throw shape_error("expected int32 labels");
  if (logits.dims.rank() == 0 || logits.dims.back() == 0) throw shape_error("there are no classes");
  if (!std::equal(labels.dims.begin(), labels.dims.end(), logits.dims.begin(), logits.dims.end() - 1))
    throw shape_error("expected one label for each row of logits");
}

/// Inputs: probabilities, labels, the gradient of the loss. Output: the gradient of the logits.
class cross_entropy_gradient_operation : public operation,
                                         public travelling<cross_entropy_gradient_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "cross_entropy_gradient"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 3);
    require_labelled(inputs[0], inputs[1]);
    if (inputs[2] != value_type{}) throw shape_error("expected the gradient of a scalar");
    return {inputs[0]};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<cross_entropy_gradient_executable>(inputs[0].dims);
  }
  std::optional<std::size_t> overwrites() const noexcept override { return 0; }
};

/// Outputs: the loss, and the probabilities, which only the gradient reads.
class cross_entropy_operation : public operation, public travelling<cross_entropy_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "cross_entropy"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
    require_labelled(inputs[0], inputs[1]);
    return {{shape{}, dtype::float32}, inputs[0]};
  }
  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    graph& model = outputs[0].owner();
    return {model.apply_one(std::make_shared<cross_entropy_gradient_operation>(),
                            {outputs[1], inputs[1], *dy[0]}, model.of(outputs[0]).where),
            adjoint{}};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<cross_entropy_executable>(inputs[0].dims);
  }
};

} // namespace

value cross_entropy(const value& logits, const value& labels, std::source_location where) {
  return logits.owner(where)
      .apply(std::make_shared<cross_entropy_operation>(), {logits, labels}, where)
      .front();
}

void add_cross_entropy_kinds(operation_registry& to) {
  to.add<cross_entropy_operation>();
  to.add<cross_entropy_gradient_operation>();
}

} // namespace mailgrad
