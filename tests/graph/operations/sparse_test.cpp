#include <mailgrad/graph/operations.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>

#include <stdexcept>

namespace mailgrad {
namespace {

using test::expect_gradients;
using test::feeds;
using test::run_once;
using test::tensor_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Three rows of four columns: {2 at 1, -1 at 3}, nothing, {3 at 1, 5 at 1}.
struct sparse_batch {
  value columns, values, offsets;

  explicit sparse_batch(graph& g)
      : columns(g.input("columns", {6}, dtype::int32)), values(g.input("values", {6})),
        offsets(g.input("offsets", {4}, dtype::int32)) {}

  feeds fed() const {
    feeds f;
    f.emplace_back(columns, tensor_of<std::int32_t>({6}, {1, 3, 1, 1, -1, -1}));
    f.emplace_back(values, tensor_of({6}, {2, -1, 3, 5, 0, 0}));
    f.emplace_back(offsets, tensor_of<std::int32_t>({4}, {0, 2, 2, 4}));
    return f;
  }
};

value table_of(graph& g, std::size_t width) {
  return g.variable("table", {4, width}, initialiser::uniform(-1, 1));
}

TEST(SparseMatmul, MultipliesTheEntriesOfEachRow) {
  graph g;
  const sparse_batch x(g);
  const value table = g.constant(tensor_of({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  const value y = sparse_matmul(x.columns, x.values, x.offsets, table);
  EXPECT_EQ(y.dims(), (shape{3, 2}));
  EXPECT_THAT(run_once(y, x.fed()), ElementsAre(-1, 0, 0, 0, 24, 32));
}

TEST(SparseMatmul, HasAGradientInTheRowsThatWereUsed) {
  for (const std::size_t width : {1U, 2U, 5U}) {
    graph g;
    const sparse_batch x(g);
    const value table = table_of(g, width);
    const value y = sparse_matmul(x.columns, x.values, x.offsets, table);
    expect_gradients(y, {table}, x.fed());
    const adjoint a = gradients(reduce_sum(y), {{table}}).front();
    EXPECT_FALSE(a.dense);
    EXPECT_EQ(a.sparse.at(0).rows, x.columns);
    EXPECT_EQ(a.sparse.at(0).values.dims(), (shape{6, width}));
  }
}

TEST(SparseMatmul, GivesADenseGradientWhereOthersReadTheTable) {
  graph g;
  const sparse_batch x(g);
  const value table = table_of(g, 2);
  const value y = sparse_matmul(x.columns, x.values, x.offsets, table) * reduce_sum(table * table);
  expect_gradients(y, {table}, x.fed());
}

TEST(SparseMatmul, OfNoRowsIsEmpty) {
  graph g;
  const value y = sparse_matmul(g.constant(tensor({0}, dtype::int32)), g.constant(tensor({0})),
                                g.constant(tensor({1}, dtype::int32)), table_of(g, 2));
  EXPECT_EQ(y.dims(), (shape{0, 2}));
  EXPECT_TRUE(run_once(y).empty());
}

TEST(SparseMatmul, NamesTheLineAndTheShapes) {
  graph g;
  const sparse_batch x(g);
  const value table = table_of(g, 2);
  const value few = g.input("few", {5});
  const std::string line = std::to_string(__LINE__ + 1);
  const auto wrong = [&] { sparse_matmul(x.columns, few, x.offsets, table); };
  EXPECT_THAT(wrong, ThrowsMessage<graph_error>(
                         AllOf(HasSubstr("sparse_test.cpp:" + line),
                               HasSubstr("sparse_matmul(int32 6, float32 5, int32 4, float32 4x2)"),
                               HasSubstr("values must be float32, as many as columns"))));
  EXPECT_THAT([&] { sparse_matmul(x.values, x.values, x.offsets, table); },
              ThrowsMessage<graph_error>(HasSubstr("columns must be int32")));
  EXPECT_THAT([&] { sparse_matmul(x.columns, x.values, x.values, table); },
              ThrowsMessage<graph_error>(HasSubstr("offsets must be int32")));
  EXPECT_THAT([&] { sparse_matmul(x.columns, x.values, x.offsets, x.values); },
              ThrowsMessage<graph_error>(HasSubstr("table must be float32")));
}

TEST(SparseMatmul, RefusesAColumnThatTheTableLacksWhenItRuns) {
  graph g;
  const sparse_batch x(g);
  const value table = g.constant(tensor({3, 2}));
  EXPECT_THROW(run_once(sparse_matmul(x.columns, x.values, x.offsets, table), x.fed()), std::out_of_range);
}

} // namespace
} // namespace mailgrad
