#include <mailgrad/graph/operations/pairwise_dots.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/kernels/pairwise_dots.hpp>
#include <mailgrad/tensor/error.hpp>

namespace mailgrad {

namespace {

vector_sets sets_of(const shape& x) { return {x[0], x[1], x[2]}; }

/// The type of the dot products of x.
value_type dots_of(const value_type& x) {
  constexpr std::size_t most = std::size_t{1} << 31; // more have more pairs than can be counted
  if (x.type != dtype::float32 || x.dims.rank() != 3)
    throw shape_error("the vectors must be float32[samples, count, width]");
  if (x.dims[1] < 2) throw shape_error("there must be two vectors to multiply");
  if (x.dims[1] > most) throw shape_error("there are too many vectors");
  return {{x.dims[0], sets_of(x.dims).pairs()}, dtype::float32};
}

class dots_executable : public executable {
public:
  explicit dots_executable(const shape& x) : sets_(sets_of(x)) {}
  void run(const stream& s, const call& c) override { mailgrad::pairwise_dots(s, sets_, c.in(0), c.out()); }

private:
  vector_sets sets_;
};

class dots_gradient_executable : public executable {
public:
  explicit dots_gradient_executable(const shape& x) : sets_(sets_of(x)) {}
  void run(const stream& s, const call& c) override {
    pairwise_dots_gradient(s, sets_, c.in(0), c.in(1), c.out());
  }

private:
  vector_sets sets_;
};

/// Inputs: x, the gradient of the dot products. Output: the gradient of x.
class dots_gradient_operation : public operation, public travelling<dots_gradient_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "pairwise_dots_gradient"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
    if (inputs[1] != dots_of(inputs[0])) throw shape_error("expected the gradient of each product");
    return {inputs[0]};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<dots_gradient_executable>(inputs[0].dims);
  }
};

class dots_operation : public operation, public travelling<dots_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "pairwise_dots"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 1);
    return {dots_of(inputs[0])};
  }
  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    graph& model = inputs[0].owner();
    return {model.apply_one(std::make_shared<dots_gradient_operation>(), {inputs[0], *dy[0]},
                            model.of(outputs[0]).where)};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<dots_executable>(inputs[0].dims);
  }
};

} // namespace

value pairwise_dots(const value& x, std::source_location where) {
  return x.owner(where).apply_one(std::make_shared<dots_operation>(), {x}, where);
}

void add_pairwise_dots_kinds(operation_registry& to) {
  to.add<dots_operation>();
  to.add<dots_gradient_operation>();
}

} // namespace mailgrad
