#include <mailgrad/graph/operations.hpp>

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations/built_in_operations.hpp>
#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/options/number.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

class dropout_executable : public executable {
public:
  dropout_executable(float rate, std::uint64_t seed, std::size_t size)
      : rate_(rate), seed_(seed), size_(size) {}
  void run(const stream& s, const call& c) override {
    mailgrad::dropout(s, {rate_, seed_, c.step}, c.in(0), c.out(), size_);
  }

private:
  float rate_;
  std::uint64_t seed_;
  std::size_t size_;
};

class dropout_operation : public operation,
                          public travelling<dropout_operation>,
                          public std::enable_shared_from_this<dropout_operation> {
public:
  dropout_operation() = default;
  dropout_operation(float rate, std::uint64_t seed) : rate_(rate), seed_(seed) {}
  void keep(archive& a) {
    a.version(1);
    a.field("rate", rate_);
    a.field("seed", seed_);
  }

  std::string_view name() const noexcept override { return "dropout"; }

  std::vector<value_type> infer(std::span<const value_type> inputs) const override {
    require_operand_count(inputs, 1);
    if (inputs[0].type != dtype::float32) throw shape_error("elements must be float32");
    if (!(rate_ >= 0 && rate_ < 1))
      throw shape_error(fmt::format("the rate must be at least 0 and below 1, not {:f}", rate_));
    return {inputs[0]};
  }

  /// The gradient of an element is multiplied by the same 0 or 1 / (1 - rate) as the element. So it is the
  /// same operation.
  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value> outputs,
                                std::span<const std::optional<value>> dy) const override {
    graph& model = inputs[0].owner();
    return {model.apply_one(shared_from_this(), {*dy[0]}, model.of(outputs[0]).where)};
  }

  std::unique_ptr<executable> prepare(std::span<const value_type> inputs, std::span<const value_type>,
                                      device_kind) const override {
    return std::make_unique<dropout_executable>(rate_, seed_, inputs[0].dims.size());
  }

  std::optional<std::size_t> overwrites() const noexcept override { return 0; }

  std::string describe() const override { return fmt::format("rate {}, seed {}", exact_text(rate_), seed_); }

private:
  float rate_ = 0;
  std::uint64_t seed_ = 0;
};

} // namespace

value dropout(const value& x, float rate, std::uint64_t seed, std::source_location where) {
  return x.owner(where).apply_one(std::make_shared<dropout_operation>(rate, seed), {x}, where);
}

void add_dropout_kinds(operation_registry& to) { to.add<dropout_operation>(); }

} // namespace mailgrad
