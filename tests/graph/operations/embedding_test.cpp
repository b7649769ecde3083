#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <array>
#include <stdexcept>

namespace mailgrad {
namespace {

using test::expect_gradients, test::feeds, test::is_refused, test::is_refused_here, test::run_once,
    test::tensor_of;
using testing::ElementsAre, testing::throws;

value table_of(graph& g, const shape& dims, const std::string& name = "table") {
  return g.variable(name, dims, initialiser::uniform(-1, 1));
}

using Gather = test::operation_test;

TEST_F(Gather, AddsTheWidthToTheExtentsOfTheIndices) {
  const value table = numbers({3, 2}, {1, 2, 3, 4, 5, 6});
  const value rows = gather(table, integers({2, 2}, {2, 0, 1, 2}));
  EXPECT_EQ(rows.dims(), (shape{2, 2, 2}));
  EXPECT_THAT(run_once(rows), ElementsAre(5, 6, 1, 2, 3, 4, 5, 6));
}

TEST_F(Gather, TakesAScalarIndex) {
  const value row = gather(table_of(g, {3, 2}), integers({}, {1}));
  EXPECT_EQ(row.dims(), shape{2});
  expect_gradients(row, g.variables());
}

TEST_F(Gather, HasAGradientInRows) {
  const value table = table_of(g, {4, 3}), rows = gather(table, integers({2, 2}, {2, 0, 2, 3}));
  const adjoint a = gradients(reduce_sum(rows), {{table}}).front();
  EXPECT_FALSE(a.dense);
  ASSERT_EQ(a.sparse.size(), 1U);
  EXPECT_EQ(a.sparse[0].rows.type(), (value_type{{4}, dtype::int32}));
  EXPECT_EQ(a.sparse[0].values.dims(), (shape{4, 3}));
  EXPECT_THAT(run_once<std::int32_t>(a.sparse[0].rows), ElementsAre(2, 0, 2, 3));
  expect_gradients(rows, {table});
}

TEST_F(Gather, LeavesAnInputOfIndicesAsItIs) {
  const value table = table_of(g, {4, 3}), picked = g.input("picked", {2}, dtype::int32);
  const adjoint a = gradients(reduce_sum(gather(table, picked)), {{table}}).front();
  EXPECT_EQ(a.sparse.at(0).rows, picked);
}

TEST_F(Gather, GivesADenseGradientWhereOthersReadTheTable) {
  const value table = table_of(g, {4, 3}), rows = gather(table, integers({2}, {1, 1}));
  const value y = rows * reduce_sum(table * table);
  const adjoint a = gradients(reduce_sum(y), {{table}}).front();
  EXPECT_TRUE(a.dense);
  EXPECT_TRUE(a.sparse.empty());
  expect_gradients(y, {table});
}

TEST_F(Gather, GivesADenseGradientToATableThatIsComputed) {
  const value table = table_of(g, {4, 3}), y = gather(table * table, integers({3}, {1, 3, 1}));
  expect_gradients(y, {table});
}

TEST_F(Gather, OfNoIndicesGivesNoRows) {
  const value rows = gather(table_of(g, {4, 3}), g.constant(tensor({0}, dtype::int32)));
  EXPECT_EQ(rows.dims(), (shape{0, 3}));
  EXPECT_TRUE(run_once(rows).empty());
}

TEST_F(Gather, NamesTheLineAndTheShapes) {
  const value table = table_of(g, {4, 3}), floats = g.input("floats", {2});
  EXPECT_THAT([&] { gather(table, floats); },
              is_refused_here("gather(float32 4x3, float32 2)", "indices must be int32"));
  const value index = g.input("index", {2}, dtype::int32);
  EXPECT_THAT([&] { gather(floats, index); }, is_refused("table must be"));
}

TEST_F(Gather, RefusesARowThatIsNotThereWhenItRuns) {
  const value rows = gather(table_of(g, {4, 3}), integers({1}, {4}));
  EXPECT_THROW(run_once(rows), std::out_of_range);
}

using ScatterRows = test::operation_test;

TEST_F(ScatterRows, AddsRowsUntilANegativeOne) {
  const value rows = integers({4}, {1, 1, -1, 0}), values = numbers({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_THAT(run_once(scatter_rows(rows, values, {3, 2})), ElementsAre(0, 0, 4, 6, 0, 0));
}

TEST_F(ScatterRows, ChecksItsShapes) {
  const value rows = g.input("rows", {4}, dtype::int32), values = g.input("values", {4, 2});
  EXPECT_THAT([&] { scatter_rows(rows, values, {3, 5}); }, is_refused("values must be float32 4x5"));
  EXPECT_THAT([&] { scatter_rows(rows, values, {3}); }, is_refused("two extents"));
  EXPECT_THAT([&] { scatter_rows(values, values, {3, 2}); }, is_refused("rows must be int32[n]"));
}

using GatherTables = test::operation_test;

TEST_F(GatherTables, PutsARowOfEachTableSideBySide) {
  const std::array tables{numbers({2, 2}, {1, 2, 3, 4}), numbers({3, 2}, {10, 20, 30, 40, 50, 60})};
  const value y = gather_tables(tables, integers({2, 2}, {1, 2, 0, 0}));
  EXPECT_EQ(y.dims(), (shape{2, 2, 2}));
  EXPECT_THAT(run_once(y), ElementsAre(3, 4, 50, 60, 1, 2, 10, 20));
}

TEST_F(GatherTables, GathersMoreSamplesThanItAsksForAhead) {
  std::vector<float> table;
  std::vector<std::int32_t> rows;
  for (std::int32_t i = 0; i < 50; ++i) {
    table.push_back(static_cast<float>(i));
    rows.push_back(i * 7 % 50);
  }
  const auto y = run_once(gather_tables({{numbers({50, 1}, table)}}, integers({50, 1}, rows)));
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(y[i], static_cast<float>(rows[i]));
}

TEST_F(GatherTables, HasAGradientInRowsForEachTable) {
  const std::array tables{table_of(g, {4, 3}, "a"), table_of(g, {2, 3}, "b")};
  const value y = gather_tables(tables, integers({3, 2}, {3, 0, 1, 1, 3, 0}));
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

TEST_F(GatherTables, GivesADenseGradientToATableThatIsComputed) {
  const value a = table_of(g, {4, 2}, "a");
  expect_gradients(gather_tables({{a * a, a}}, integers({2, 2}, {3, 0, 1, 1})), {a});
}

TEST_F(GatherTables, RefusesARowThatIsNotThere) {
  for (const std::int32_t row : {2, -1}) {
    graph fresh;
    const std::array tables{table_of(fresh, {4, 3}, "a"), table_of(fresh, {2, 3}, "b")};
    const value y = gather_tables(tables, fresh.constant(tensor_of<std::int32_t>({1, 2}, {0, row})));
    EXPECT_THAT([&] { run_once(y); },
                throws<std::out_of_range>("row " + std::to_string(row) + " of a table of 2 rows"));
  }
}

TEST_F(GatherTables, RefusesWhatDoesNotFit) {
  const value a = table_of(g, {4, 3}, "a"), wider = table_of(g, {2, 5}, "b"), rows = integers({1, 2}, {0, 0});
  EXPECT_THROW(gather_tables({{a, wider}}, rows), graph_error);
  EXPECT_THROW(gather_tables({{a}}, rows), graph_error);
  EXPECT_THROW(gather_tables({}, rows), graph_error);
  EXPECT_THROW(gather_tables({{a, a}}, g.input("x", {1, 2})), graph_error);
}

/// Three rows of four columns: {2 at 1, -1 at 3}, nothing, {3 at 1, 5 at 1}.
struct sparse_batch {
  value columns, values, offsets;

  explicit sparse_batch(graph& g)
      : columns(g.input("columns", {6}, dtype::int32)), values(g.input("values", {6})),
        offsets(g.input("offsets", {4}, dtype::int32)) {}

  value times(const value& table) const { return sparse_matmul(columns, values, offsets, table); }
  feeds fed() const {
    return {{columns, tensor_of<std::int32_t>({6}, {1, 3, 1, 1, -1, -1})},
            {values, tensor_of({6}, {2, -1, 3, 5, 0, 0})},
            {offsets, tensor_of<std::int32_t>({4}, {0, 2, 2, 4})}};
  }
};

using SparseMatmul = test::operation_test;

TEST_F(SparseMatmul, MultipliesTheEntriesOfEachRow) {
  const sparse_batch x(g);
  const value table = numbers({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), y = x.times(table);
  EXPECT_EQ(y.dims(), (shape{3, 2}));
  EXPECT_THAT(run_once(y, x.fed()), ElementsAre(-1, 0, 0, 0, 24, 32));
}

TEST_F(SparseMatmul, HasAGradientInTheRowsThatWereUsed) {
  for (const std::size_t width : {1U, 2U, 5U}) {
    graph fresh;
    const sparse_batch x(fresh);
    const value table = table_of(fresh, {4, width}), y = x.times(table);
    expect_gradients(y, {table}, x.fed());
    const adjoint a = gradients(reduce_sum(y), {{table}}).front();
    EXPECT_FALSE(a.dense);
    EXPECT_EQ(a.sparse.at(0).rows, x.columns);
    EXPECT_EQ(a.sparse.at(0).values.dims(), (shape{6, width}));
  }
}

TEST_F(SparseMatmul, GivesADenseGradientWhereOthersReadTheTable) {
  const sparse_batch x(g);
  const value table = table_of(g, {4, 2}), y = x.times(table) * reduce_sum(table * table);
  expect_gradients(y, {table}, x.fed());
}

TEST_F(SparseMatmul, OfNoRowsIsEmpty) {
  const value y = sparse_matmul(g.constant(tensor({0}, dtype::int32)), g.constant(tensor({0})),
                                g.constant(tensor({1}, dtype::int32)), table_of(g, {4, 2}));
  EXPECT_EQ(y.dims(), (shape{0, 2}));
  EXPECT_TRUE(run_once(y).empty());
}

TEST_F(SparseMatmul, NamesTheLineAndTheShapes) {
  const sparse_batch x(g);
  const value table = table_of(g, {4, 2}), few = g.input("few", {5});
  EXPECT_THAT([&] { sparse_matmul(x.columns, few, x.offsets, table); },
              is_refused_here("sparse_matmul(int32 6, float32 5, int32 4, float32 4x2)",
                              "values must be float32, as many as columns"));
  EXPECT_THAT([&] { sparse_matmul(x.values, x.values, x.offsets, table); },
              is_refused("columns must be int32"));
  EXPECT_THAT([&] { sparse_matmul(x.columns, x.values, x.values, table); },
              is_refused("offsets must be int32"));
  EXPECT_THAT([&] { x.times(x.values); }, is_refused("table must be float32"));
}

TEST_F(SparseMatmul, RefusesAColumnThatTheTableLacksWhenItRuns) {
  const sparse_batch x(g);
  const value table = g.constant(tensor({3, 2}));
  EXPECT_THROW(run_once(x.times(table), x.fed()), std::out_of_range);
}

} // namespace
} // namespace mailgrad
