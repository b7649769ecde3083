#include <mailgrad/graph/operations/elementwise.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mailgrad {

namespace {

elementwise_chain::extent extent_of(const value_type& operand) {
  return operand.dims.size() == 1 ? elementwise_chain::extent::one : elementwise_chain::extent::full;
}

elementwise_chain chain_of(elementwise_function f, std::span<const value_type> inputs) {
  elementwise_chain chain;
  chain.input_count = static_cast<std::uint8_t>(inputs.size());
  std::ranges::transform(inputs, chain.inputs.begin(), extent_of);
  chain.step_count = 1;
  chain.steps[0] = {f, 0, static_cast<std::uint8_t>(inputs.size() - 1), 0};
  return chain;
}

class chain_executable : public executable {
public:
  chain_executable(const elementwise_chain& chain, std::size_t n) : chain_(chain), n_(n) {}

  std::size_t scratch_bytes() const noexcept override { return chain_.scratch_bytes(); }
  void run(const stream& s, const call& c) override {
    elementwise(s, chain_, c.inputs, c.outputs, n_, c.scratch);
  }

private:
  elementwise_chain chain_;
  std::size_t n_;
};

class broadcast_executable : public executable {
public:
  broadcast_executable(elementwise_function f, const broadcast_plan& plan) : function_(f), plan_(plan) {}

  void run(const stream& s, const call& c) override {
    broadcast(s, function_, plan_, c.in(0), c.in(1), c.out());
  }

private:
  elementwise_function function_;
  broadcast_plan plan_;
};

} // namespace

shape broadcast_shapes(const shape& a, const shape& b) {
  shape result = a.rank() >= b.rank() ? a : b;
  const shape& other = a.rank() >= b.rank() ? b : a;
  const std::size_t missing = result.rank() - other.rank();
  for (std::size_t i = 0; i < other.rank(); ++i) {
    std::size_t& extent = result[missing + i];
    if (extent == other[i] || other[i] == 1) continue;
    if (extent != 1)
      throw shape_error(fmt::format("extents {} and {} differ and neither is 1",
                                    a[a.rank() - other.rank() + i], b[b.rank() - other.rank() + i]));
    extent = other[i];
  }
  return result;
}

std::vector<value_type> elementwise_operation::infer(std::span<const value_type> inputs) const {
  if (inputs.empty() || inputs.size() > 2) throw shape_error("takes one operand or two");
  shape dims = inputs[0].dims;
  for (const value_type& t : inputs) {
    if (t.type != dtype::float32) throw shape_error("expected float32");
    dims = broadcast_shapes(dims, t.dims);
  }
  return {{dims, dtype::float32}};
}

std::vector<adjoint> elementwise_operation::gradient(std::span<const value> inputs,
                                                     std::span<const value> outputs,
                                                     std::span<const std::optional<value>> dy) const {
  if (!rule_) return operation::gradient(inputs, outputs, dy);
  const std::source_location where = outputs[0].owner().of(outputs[0]).where;
  return rule_(inputs, {outputs[0], where}, {*dy[0], where});
}

std::unique_ptr<executable> elementwise_operation::prepare(std::span<const value_type> inputs,
                                                           std::span<const value_type> outputs) const {
  const shape& result = outputs[0].dims;
  const bool simple = std::ranges::all_of(
      inputs, [&](const value_type& t) { return t.dims.size() == result.size() || t.dims.size() == 1; });
  if (simple) return make_executable(chain_of(function_, inputs), result.size());
  return std::make_unique<broadcast_executable>(function_,
                                                plan_broadcast(inputs[0].dims, inputs[1].dims, result));
}

/// The result may overwrite the first operand. A function that computes a gradient overwrites dy, the second.
std::optional<std::size_t> elementwise_operation::overwrites() const noexcept {
  return function_ >= elementwise_function::relu_gradient ? 1 : 0;
}

std::unique_ptr<executable> make_executable(const elementwise_chain& chain, std::size_t n) {
  return std::make_unique<chain_executable>(chain, n);
}

value apply_function(std::string_view name, elementwise_function f, const located& a, const located& b) {
  return a.what.owner(a.where).apply_one(std::make_shared<elementwise_operation>(name, f, nullptr),
                                         {a.what, b.what}, a.where);
}

} // namespace mailgrad
