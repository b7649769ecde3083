#include <mailgrad/graph/operations.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>

#include <stdexcept>

namespace mailgrad {
namespace {

using test::expect_gradients;
using test::run_once;
using test::tensor_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

using indices = std::vector<std::int32_t>;

value table_of(graph& g, const shape& dims) { return g.variable("table", dims, initialiser::uniform(-1, 1)); }

TEST(Gather, AddsTheWidthToTheExtentsOfTheIndices) {
  graph g;
  const value table = g.constant(tensor_of({3, 2}, {1, 2, 3, 4, 5, 6}));
  const value rows = gather(table, g.constant(tensor_of<std::int32_t>({2, 2}, {2, 0, 1, 2})));
  EXPECT_EQ(rows.dims(), (shape{2, 2, 2}));
  EXPECT_THAT(run_once(rows), ElementsAre(5, 6, 1, 2, 3, 4, 5, 6));
}

TEST(Gather, TakesAScalarIndex) {
  graph g;
  const value row = gather(table_of(g, {3, 2}), g.constant(tensor_of<std::int32_t>({}, {1})));
  EXPECT_EQ(row.dims(), shape{2});
  expect_gradients(row, g.variables());
}

TEST(Gather, HasAGradientInRows) {
  graph g;
  const value table = table_of(g, {4, 3});
  const value rows = gather(table, g.constant(tensor_of<std::int32_t>({2, 2}, {2, 0, 2, 3})));
  const adjoint a = gradients(reduce_sum(rows), {{table}}).front();
  EXPECT_FALSE(a.dense);
  ASSERT_EQ(a.sparse.size(), 1U);
  EXPECT_EQ(a.sparse[0].rows.type(), (value_type{{4}, dtype::int32}));
  EXPECT_EQ(a.sparse[0].values.dims(), (shape{4, 3}));
  EXPECT_THAT(run_once<std::int32_t>(a.sparse[0].rows), ElementsAre(2, 0, 2, 3));
  expect_gradients(rows, {table});
}

TEST(Gather, LeavesAnInputOfIndicesAsItIs) {
  graph g;
  const value table = table_of(g, {4, 3});
  const value picked = g.input("picked", {2}, dtype::int32);
  const adjoint a = gradients(reduce_sum(gather(table, picked)), {{table}}).front();
  EXPECT_EQ(a.sparse.at(0).rows, picked);
}

TEST(Gather, GivesADenseGradientWhereOthersReadTheTable) {
  graph g;
  const value table = table_of(g, {4, 3});
  const value rows = gather(table, g.constant(tensor_of<std::int32_t>({2}, {1, 1})));
  const value y = rows * reduce_sum(table * table);
  const adjoint a = gradients(reduce_sum(y), {{table}}).front();
  EXPECT_TRUE(a.dense);
  EXPECT_TRUE(a.sparse.empty());
  expect_gradients(y, {table});
}

TEST(Gather, GivesADenseGradientToATableThatIsComputed) {
  graph g;
  const value table = table_of(g, {4, 3});
  const value y = gather(table * table, g.constant(tensor_of<std::int32_t>({3}, {1, 3, 1})));
  expect_gradients(y, {table});
}

TEST(Gather, OfNoIndicesGivesNoRows) {
  graph g;
  const value rows = gather(table_of(g, {4, 3}), g.constant(tensor({0}, dtype::int32)));
  EXPECT_EQ(rows.dims(), (shape{0, 3}));
  EXPECT_TRUE(run_once(rows).empty());
}

TEST(Gather, NamesTheLineAndTheShapes) {
  graph g;
  const value table = table_of(g, {4, 3});
  const value floats = g.input("floats", {2});
  const std::string line = std::to_string(__LINE__ + 1);
  const auto wrong = [&] { gather(table, floats); };
  EXPECT_THAT(wrong, ThrowsMessage<graph_error>(AllOf(HasSubstr("embedding_test.cpp:" + line),
                                                      HasSubstr("gather(float32 4x3, float32 2)"),
                                                      HasSubstr("indices must be int32"))));
  const value index = g.input("index", {2}, dtype::int32);
  EXPECT_THAT([&] { gather(floats, index); }, ThrowsMessage<graph_error>(HasSubstr("table must be")));
}

TEST(Gather, RefusesARowThatIsNotThereWhenItRuns) {
  graph g;
  const value rows = gather(table_of(g, {4, 3}), g.constant(tensor_of<std::int32_t>({1}, {4})));
  EXPECT_THROW(run_once(rows), std::out_of_range);
}

TEST(ScatterRows, AddsRowsUntilANegativeOne) {
  graph g;
  const value rows = g.constant(tensor_of<std::int32_t>({4}, {1, 1, -1, 0}));
  const value values = g.constant(tensor_of({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_THAT(run_once(scatter_rows(rows, values, {3, 2})), ElementsAre(0, 0, 4, 6, 0, 0));
}

TEST(ScatterRows, ChecksItsShapes) {
  graph g;
  const value rows = g.input("rows", {4}, dtype::int32);
  const value values = g.input("values", {4, 2});
  EXPECT_THAT(
      [&] {
        scatter_rows(rows, values, {3, 5});
      },
      ThrowsMessage<graph_error>(HasSubstr("values must be float32 4x5")));
  EXPECT_THAT([&] { scatter_rows(rows, values, {3}); }, ThrowsMessage<graph_error>(HasSubstr("two extents")));
  EXPECT_THAT(
      [&] {
        scatter_rows(values, values, {3, 2});
      },
      ThrowsMessage<graph_error>(HasSubstr("rows must be int32[n]")));
}

} // namespace
} // namespace mailgrad
