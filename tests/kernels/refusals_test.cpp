#include <mailgrad/tests/kernels/host_stream.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/kernels/elementwise.hpp>
#include <mailgrad/kernels/gather.hpp>
#include <mailgrad/kernels/softmax.hpp>
#include <mailgrad/kernels/update.hpp>
#include <mailgrad/kernels/vectors.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

// Kernels that take spans compare their lengths. Bare pointers are the caller's to answer for: the graph's
// operations, which have inferred the shapes.

namespace mailgrad {
namespace {

using testing::expect_refused;
using testing::host;

using floats = std::vector<float>;
using integers = std::vector<std::int32_t>;

constexpr std::size_t all = ~std::size_t{0};

TEST(Refusals, OfSumsOfOtherLengths) {
  floats two(2);
  floats three(3);
  expect_refused({
      {"begin_sum", [&] { begin_sum(host, 1, two, three); }, "accumulate: 2 against 3"},
      {"add_to_sum", [&] { add_to_sum(host, 1, three, two); }, "accumulate: 3 against 2"},
  });
}

TEST(Refusals, OfRowsThatATableLacks) {
  floats table(6);
  floats buffer(12);
  const auto gathered = [&](integers rows, std::size_t width) {
    return [&, rows = std::move(rows), width] { gather(host, table, width, rows, buffer.data()); };
  };
  const auto scattered = [&](integers rows, std::size_t width) {
    return [&, rows = std::move(rows), width] { scatter_rows(host, rows, buffer.data(), width, table); };
  };
  expect_refused({
      {"gather behind the end", gathered({0, 2}, 3), "row 2 of a table of 2 rows"},
      {"gather a negative row", gathered({-1}, 3), "row -1"},
      {"gather from a table of no whole rows", gathered({0}, 4), "gather: 6 against 4"},
      {"gather rows wider than the table", gathered({0}, 7), "gather: 6 against 7"},
      {"gather rows whose offset wraps", gathered({2}, (all >> 1) + 1), "more elements than memory can hold"},
      {"gather rows of no width", gathered({0}, 0), "gather: 6 against 0"},
      {"scatter behind the end", scattered({0, 2}, 3), "row 2 of a table of 2 rows"},
      {"scatter into no whole rows", scattered({0}, 4), "scatter_rows: 6 against 4"},
  });
  scatter_rows(host, integers{-1, 7}, buffer.data(), 3,
               table); // the list ends before the row that is not there
}

TEST(Refusals, OfRowsThatSeveralTablesLack) {
  const floats values(6);
  const std::array<row_table, 2> tables{row_table{values.data(), 2}, row_table{values.data(), 1}};
  floats buffer(12);
  integers number(4);
  const std::array<table_gradient, 2> parts{table_gradient{number.data(), buffer.data()},
                                            table_gradient{number.data(), buffer.data()}};
  expect_refused({
      {"behind the end",
       [&] {
         gather_tables(host, tables, 3, integers{0, 1}, buffer.data());
       },
       "row 1 of a table of 1 rows"},
      {"half a sample",
       [&] {
         gather_tables(host, tables, 3, integers{0, 0, 1}, buffer.data());
       },
       "gather_tables: 3 against 2"},
      {"no tables", [&] { gather_tables(host, {}, 3, integers{0}, buffer.data()); },
       "gather_tables: 1 against 0"},
      {"gradient of half a sample",
       [&] { gather_tables_gradient(host, integers{0}, buffer.data(), 3, parts); },
       "gather_tables_gradient: 1 against 2"},
      {"gradient of no tables", [&] { gather_tables_gradient(host, integers{0}, buffer.data(), 3, {}); },
       "gather_tables_gradient: 1 against 0"},
  });
}

TEST(Refusals, OfSparseRowsThatPointNowhere) {
  const floats table(6);
  const floats values{1, 1};
  floats y(12);
  const auto product = [&](integers columns, integers offsets, std::size_t width) {
    return [&, columns = std::move(columns), offsets = std::move(offsets), width] {
      sparse_product(host, {columns, values.data(), offsets}, table, width, y.data());
    };
  };
  const auto gradient = [&](integers columns, integers offsets) {
    return [&, columns = std::move(columns), offsets = std::move(offsets)] {
      sparse_product_gradient(host, {columns, values.data(), offsets}, table.data(), 1, y.data());
    };
  };
  for (const std::size_t width : {1U, 2U, 3U}) {
    expect_refused({
        {"no offsets", product({0}, {}, width), "no offsets"},
        {"an offset behind the entries", product({0}, {0, 2}, width), "entries 0 to 2 of 1"},
        {"a negative offset", product({0}, {-1, 1}, width), "entries -1 to 1"},
        {"offsets that descend", product({0, 0}, {2, 1}, width), "entries 2 to 1"},
        {"a column behind the table", product({6}, {0, 1}, width), "column 6"},
        {"a negative column", product({-1}, {0, 1}, width), "column -1"},
    });
  }
  expect_refused({
      {"a width beyond the table", product({0}, {0, 1}, 7), "column 0"},
      {"a width whose offset wraps", product({2}, {0, 1}, (all >> 1) + 1), "column 2"},
      {"gradient without offsets", gradient({0}, {}), "no offsets"},
      {"gradient behind the entries", gradient({0}, {0, 2}), "entries 0 to 2 of 1"},
  });
}

TEST(Refusals, OfLabelsThatAreNoClass) {
  const floats logits(6);
  floats probabilities(6);
  float loss = 0;
  for (const std::int32_t label : {3, 9, -1, -2147483647})
    expect_refused({"label",
                    [&] {
                      const integers labels{0, label};
                      cross_entropy(host, logits.data(), labels.data(), &loss, probabilities.data(), 2, 3);
                    },
                    "label " + std::to_string(label) + ", but the logits have 3 classes"});
}

TEST(Refusals, OfChainsThatReferToNothing) {
  floats x(4);
  const std::array<const void*, 1> inputs{x.data()};
  const std::array<void*, 1> outputs{x.data()};
  elementwise_chain chain;
  chain.input_count = 1;
  chain.step_count = 1;
  chain.steps[0] = {elementwise_function::copy, 0, 0, 0};
  const auto run = [&](auto change, std::span<const void* const> in, std::span<void* const> out) {
    return [&, change, in, out] {
      elementwise_chain changed = chain;
      change(changed);
      elementwise(host, changed, in, out, 4, nullptr);
    };
  };
  const auto as_it_is = [](elementwise_chain&) {};
  expect_refused({
      {"no inputs", run(as_it_is, {}, outputs), "elementwise"},
      {"no outputs", run(as_it_is, inputs, {}), "elementwise"},
      {"an operand that comes later", run([](auto& c) { c.steps[0].a = 1; }, inputs, outputs), "elementwise"},
      {"an operand that is not there", run([](auto& c) { c.steps[0].b = 99; }, inputs, outputs),
       "elementwise"},
      {"an output that is not there", run([](auto& c) { c.steps[0].output = 1; }, inputs, outputs),
       "elementwise"},
      {"more inputs than a chain has", run([](auto& c) { c.input_count = 200; }, inputs, outputs),
       "elementwise"},
      {"more steps than a chain has", run([](auto& c) { c.step_count = 200; }, inputs, outputs),
       "elementwise"},
  });
  expect_refused({
      {"broadcast of a higher rank",
       [] {
         plan_broadcast({2, 3}, {3}, {3});
       },
       "broadcast: 2x3 against 3"},
      {"broadcast of another extent", [] { plan_broadcast({3}, {2}, {3}); }, "broadcast: 2 against 3"},
  });
}

TEST(Refusals, OfUpdatesThatDoNotFit) {
  floats weights(6);
  floats fewer(5);
  floats state(6);
  const std::array<float*, 1> one_state{state.data()};
  const update_rule sgd = sgd_update{0.1F};
  const std::vector<std::uint32_t> rows{0};
  const std::vector<std::uint32_t> behind{2};
  const floats values(3);
  const auto updated = [&](row_update work) { return [&, work] { update_rows(host, sgd, {}, work, {}); }; };
  expect_refused({
      {"other lengths",
       [&] {
         update(host, sgd, {}, {weights, fewer, {}}, {});
       },
       "update: 6 against 5"},
      {"a state too many",
       [&] {
         update(host, sgd, {}, {weights, weights, {}}, one_state);
       },
       "1 states for a rule of 0"},
      {"no state",
       [&] {
         update(host, momentum_update{0.1F, 0.9F}, {}, {weights, weights, {}}, {});
       },
       "0 states for a rule of 1"},
      {"a row behind the table", updated({weights, 3, behind, values}), "row 2 of a table of 2"},
      {"too few values", updated({weights, 3, rows, std::span(values).first(2)}), "2 values for 1 rows of 3"},
      {"rows of no width", updated({weights, 0, rows, {}}), "row 0 of a table of 0"},
      {"rows whose width wraps",
       [&] {
         const std::vector<std::uint32_t> two{0, 0};
         update_rows(host, sgd, {}, {{}, (all >> 1) + 1, two, {}}, {});
       },
       "0 values for 2 rows"},
  });
}

} // namespace
} // namespace mailgrad
