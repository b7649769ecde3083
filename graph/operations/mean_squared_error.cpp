#include <mailgrad/graph/operations/reductions.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations/arithmetic.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/kernels/reduce.hpp>
#include <mailgrad/tensor/error.hpp>

namespace mailgrad {

namespace {

class mean_squared_error_executable : public executable {
public:
  explicit mean_squared_error_executable(std::size_t n) : n_(n) {}
  void run(const stream& s, const call& c) override {
    mean_squared_difference(s, c.in(0), c.in(1), n_, c.out());
  }

private:
  std::size_t n_;
};

class mean_squared_error_operation : public operation, public travelling<mean_squared_error_operation> {
public:
  void keep(archive&) {}
  std::string_view name() const noexcept override { return "mean_squared_error"; }
  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 2);
    for (const value_type& t : inputs)
      if (t.type != dtype::float32) throw shape_error("expected float32");
    if (inputs[0].dims != inputs[1].dims) throw shape_error("the shapes differ");
    return {{shape{}, dtype::float32}};
  }
  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    const std::source_location where = outputs[0].owner().of(outputs[0]).where;
    const located a(inputs[0], where), b(inputs[1], where), d(*dy[0], where);
    const float two_over_n = 2.0F / static_cast<float>(inputs[0].dims().size());
    const located da(located(a - b, where) * located(d * two_over_n, where), where);
    return {da.what, -da};
  }
  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<mean_squared_error_executable>(inputs[0].dims.size());
  }
};

} // namespace

value mean_squared_error(const value& a, const value& b, std::source_location where) {
  return a.owner(where).apply_one(std::make_shared<mean_squared_error_operation>(), {a, b}, where);
}

void add_mean_squared_error_kinds(operation_registry& to) { to.add<mean_squared_error_operation>(); }

} // namespace mailgrad
