#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/elementwise.hpp>
#include <mailgrad/graph/program/program.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Operations that somebody else wrote, and programs, of which something is missing.

namespace mailgrad {
namespace {

using testing::expect_refused;

constexpr const char* operations_file = "operation_refusals_test.cpp:";

/// An operation that somebody else wrote, with one thing wrong.
class custom_operation : public operation {
public:
  std::vector<value_type> makes{{{2}, dtype::float32}};
  std::vector<shape> gradients_of{{2}};
  bool view = false;

  std::string_view name() const noexcept override { return "own"; }
  std::vector<value_type> infer(std::span<const value_type>) const override { return makes; }
  std::vector<adjoint> gradient(std::span<const value> inputs, std::span<const value>,
                                std::span<const std::optional<value>>) const override {
    std::vector<adjoint> parts;
    for (const shape& dims : gradients_of) parts.emplace_back(inputs[0].owner().constant(tensor(dims)));
    return parts;
  }
  std::unique_ptr<executable> prepare(std::span<const value_type>, std::span<const value_type>,
                                      device_kind) const override {
    return nullptr;
  }
  bool is_view() const noexcept override { return view; }
};

value with_own(const value& x, const std::function<void(custom_operation&)>& change) {
  const auto op = std::make_shared<custom_operation>();
  change(*op);
  return x.owner().apply_one(op, {x}, std::source_location::current());
}

TEST(Refusals, OfOperationsThatDoNotKeepTheirPromises) {
  graph g;
  const value x = g.variable("x", {2}, {});
  const auto gradient_of = [&](const value& y) { gradients(reduce_sum(y), std::array{x}); };
  const auto compiled = [&](const value& y) { program(g, std::array{y}); };
  expect_refused({
      {"none", [&] { g.apply(nullptr, {x}, std::source_location::current()); }, operations_file},
      {"no result", [&] { with_own(x, [](custom_operation& o) { o.makes.clear(); }); }, operations_file},
      {"too few gradients",
       [&] { gradient_of(with_own(x, [](custom_operation& o) { o.gradients_of.clear(); })); },
       operations_file},
      {"too many gradients",
       [&] { gradient_of(with_own(x, [](custom_operation& o) { o.gradients_of.push_back({2}); })); },
       operations_file},
      {"gradient of another shape",
       [&] { gradient_of(with_own(x, [](custom_operation& o) { o.gradients_of = {{3}}; })); },
       operations_file},
      {"nothing to run", [&] { compiled(with_own(x, [](custom_operation&) {})); }, operations_file},
      {"view of another size",
       [&] {
         compiled(with_own(x, [](custom_operation& o) {
           o.view = true;
           o.makes = {{{9}, dtype::float32}};
         }));
       },
       operations_file},
      {"elementwise of no operand",
       [&] {
         g.apply(std::make_shared<elementwise_operation>("f", elementwise_function::add, nullptr), {},
                 std::source_location::current());
       },
       operations_file},
      {"elementwise of three operands",
       [&] {
         g.apply(std::make_shared<elementwise_operation>("f", elementwise_function::add, nullptr), {x, x, x},
                 std::source_location::current());
       },
       operations_file},
  });
}

TEST(Refusals, OfProgramsBoundToNothing) {
  graph g;
  const value x = g.input("x", {2});
  program p(g, std::array{x + 1});
  std::array<float, 2> memory{};
  expect_refused({
      {"nothing bound", [&] { p.run(host_stream{}, 0, [] {}); }, "nothing is bound to 'x'"},
      {"bound to null",
       [&] {
         p.bind(x, nullptr);
         p.run(host_stream{}, 0, [] {});
       },
       "nothing is bound to 'x'"},
      {"no such fetch", [&] { p.bind_fetch(1, memory.data()); }, "no fetch 1"},
      {"no such result", [&] { static_cast<void>(p.fetched(1)); }, "no fetch 1"},
      {"fetch into null", [&] { p.bind_fetch(0, nullptr); }, "no memory"},
  });
  p.bind(x, memory.data());
  p.bind(g.input("later", {2}), memory.data()); // was not there when the program was compiled
  p.run(host_stream{}, 0, {});
}

TEST(Refusals, InARunNameTheLineOfTheOperation) {
  graph g;
  const value table = g.constant(tensor({2, 3}));
  const value rows = g.input("rows", {1}, dtype::int32);
  const value logits = g.constant(tensor({1, 3}));
  const std::string gathered = operations_file + std::to_string(__LINE__ + 1);
  const value y = gather(table, rows);
  const std::string judged = operations_file + std::to_string(__LINE__ + 1);
  const value loss = cross_entropy(logits, rows);
  for (const std::int32_t row : {-1, 3, 2147483647}) {
    const auto run = [&](const value& v) {
      program p(g, std::array{v});
      p.bind(rows, &row);
      p.run(host_stream{}, 0, [] {});
    };
    expect_refused(
        {{"gather", [&] { run(y); }, gathered + ": gather: row " + std::to_string(row)},
         {"cross_entropy", [&] { run(loss); },
          judged + ": cross_entropy: label " + std::to_string(row) + ", but the logits have 3 classes"}});
  }
}

} // namespace
} // namespace mailgrad
