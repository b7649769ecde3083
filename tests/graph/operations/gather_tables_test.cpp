#include <mailgrad/graph/operations.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>

#include <array>
#include <stdexcept>

namespace mailgrad {
namespace {

using test::expect_gradients;
using test::run_once;
using test::tensor_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

value table_of(graph& g, const std::string& name, const shape& dims) {
  return g.variable(name, dims, initialiser::uniform(-1, 1));
}

value indices_of(graph& g, const shape& dims, const std::vector<std::int32_t>& rows) {
  return g.constant(tensor_of<std::int32_t>(dims, rows));
}

TEST(GatherTables, PutsARowOfEachTableSideBySide) {
  graph g;
  const std::array tables{g.constant(tensor_of({2, 2}, {1, 2, 3, 4})),
                          g.constant(tensor_of({3, 2}, {10, 20, 30, 40, 50, 60}))};
  const value y = gather_tables(tables, indices_of(g, {2, 2}, {1, 2, 0, 0}));
  EXPECT_EQ(y.dims(), (shape{2, 2, 2}));
  EXPECT_THAT(run_once(y), ElementsAre(3, 4, 50, 60, 1, 2, 10, 20));
}

TEST(GatherTables, GathersMoreSamplesThanItAsksForAhead) {
  graph g;
  std::vector<float> numbers(50);
  std::vector<std::int32_t> rows;
  for (std::size_t i = 0; i < 50; ++i) numbers[i] = static_cast<float>(i);
  for (std::int32_t i = 0; i < 50; ++i) rows.push_back(i * 7 % 50);
  const std::vector<float> y =
      run_once(gather_tables({{g.constant(tensor_of({50, 1}, numbers))}}, indices_of(g, {50, 1}, rows)));
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(y[i], static_cast<float>(rows[i]));
}

TEST(GatherTables, HasAGradientInRowsForEachTable) {
  graph g;
  const std::array tables{table_of(g, "a", {4, 3}), table_of(g, "b", {2, 3})};
  const value y = gather_tables(tables, indices_of(g, {3, 2}, {3, 0, 1, 1, 3, 0}));
  const auto found = gradients(reduce_sum(y), tables);
  for (const adjoint& a : found) {
    EXPECT_FALSE(a.dense);
    ASSERT_EQ(a.sparse.size(), 1U);
    EXPECT_EQ(a.sparse[0].values.dims(), (shape{3, 3}));
  }
  EXPECT_THAT(run_once<std::int32_t>(found[0].sparse[0].rows), ElementsAre(3, 1, 3));
  EXPECT_THAT(run_once<std::int32_t>(found[1].sparse[0].rows), ElementsAre(0, 1, 0));
  expect_gradients(y * y, {tables.begin(), tables.end()});
}

TEST(GatherTables, GivesADenseGradientToATableThatIsComputed) {
  graph g;
  const value a = table_of(g, "a", {4, 2});
  expect_gradients(gather_tables({{a * a, a}}, indices_of(g, {2, 2}, {3, 0, 1, 1})), {a});
}

TEST(GatherTables, RefusesARowThatIsNotThere) {
  for (const std::int32_t row : {2, -1}) {
    graph g;
    const std::array tables{table_of(g, "a", {4, 3}), table_of(g, "b", {2, 3})};
    const value y = gather_tables(tables, indices_of(g, {1, 2}, {0, row}));
    EXPECT_THAT([&] { run_once(y); }, ThrowsMessage<std::out_of_range>(
                                          HasSubstr("row " + std::to_string(row) + " of a table of 2 rows")));
  }
}

TEST(GatherTables, RefusesWhatDoesNotFit) {
  graph g;
  const value a = table_of(g, "a", {4, 3});
  const value wider = table_of(g, "b", {2, 5});
  const value rows = indices_of(g, {1, 2}, {0, 0});
  EXPECT_THROW(gather_tables({{a, wider}}, rows), graph_error);
  EXPECT_THROW(gather_tables({{a}}, rows), graph_error);
  EXPECT_THROW(gather_tables({}, rows), graph_error);
  EXPECT_THROW(gather_tables({{a, a}}, g.input("x", {1, 2})), graph_error);
}

} // namespace
} // namespace mailgrad
