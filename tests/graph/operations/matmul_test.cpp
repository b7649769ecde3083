#include <mailgrad/graph/operations.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using enum operand_order;
using test::expect_gradients;
using test::run_once;
using test::tensor_of;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Matmul, MultipliesMatrices) {
  graph g;
  const value a = g.constant(tensor_of({2, 3}, {1, 2, 3, 4, 5, 6}));
  const value b = g.constant(tensor_of({3, 2}, {7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(matmul(a, b).dims(), (shape{2, 2}));
  EXPECT_THAT(run_once(matmul(a, b)), ElementsAre(58, 64, 139, 154));
}

TEST(Matmul, ReadsOperandsTransposed) {
  graph g;
  const value a = g.constant(tensor_of({2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(run_once(matmul(a, a, {.b = transposed})), ElementsAre(14, 32, 32, 77));
  EXPECT_THAT(run_once(matmul(a, a, {.a = transposed})), ElementsAre(17, 22, 27, 22, 29, 36, 27, 36, 45));
}

TEST(Matmul, MultipliesEachMatrixOfABatch) {
  graph g;
  const value a = g.constant(tensor_of({2, 1, 2}, {1, 2, 3, 4}));
  const value b = g.constant(tensor_of({2, 2, 1}, {5, 6, 7, 8}));
  EXPECT_EQ(matmul(a, b).dims(), (shape{2, 1, 1}));
  EXPECT_THAT(run_once(matmul(a, b)), ElementsAre(17, 53));
}

TEST(Matmul, MultipliesEveryRowByOneMatrix) {
  graph g;
  const value a = g.constant(tensor_of({2, 1, 2}, {1, 2, 3, 4}));
  const value b = g.constant(tensor_of({2, 2}, {5, 6, 7, 8}));
  EXPECT_EQ(matmul(a, b).dims(), (shape{2, 1, 2}));
  EXPECT_THAT(run_once(matmul(a, b)), ElementsAre(19, 22, 43, 50));
}

TEST(Matmul, OverNothingIsZero) {
  graph g;
  EXPECT_THAT(run_once(matmul(g.constant(tensor{{2, 0}}), g.constant(tensor{{0, 3}}))), Each(0.0F));
}

struct product {
  shape a, b;
  matmul_options orders = {};
};

class MatmulGradients : public testing::TestWithParam<product> {};

TEST_P(MatmulGradients, AgreeWithCentralDifferences) {
  graph g;
  const value a = g.variable("a", GetParam().a, initialiser::uniform(-1, 1));
  const value b = g.variable("b", GetParam().b, initialiser::uniform(-1, 1));
  expect_gradients(matmul(a, b, GetParam().orders), {a, b});
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatmulGradients,
                         testing::Values(product{{3, 4}, {4, 5}}, product{{4, 3}, {4, 5}, {.a = transposed}},
                                         product{{3, 4}, {5, 4}, {.b = transposed}},
                                         product{{4, 3}, {5, 4}, {transposed, transposed}},
                                         product{{1, 1}, {1, 1}}, product{{2, 3, 4}, {2, 4, 5}},
                                         product{{2, 4, 3}, {2, 4, 5}, {.a = transposed}},
                                         product{{2, 3, 4}, {2, 5, 4}, {.b = transposed}},
                                         product{{2, 4, 3}, {2, 5, 4}, {transposed, transposed}},
                                         product{{2, 3, 3, 4}, {2, 3, 5, 4}, {.b = transposed}},
                                         product{{2, 3, 4}, {4, 5}},
                                         product{{2, 3, 4}, {5, 4}, {.b = transposed}}));

TEST(Matmul, HasASecondGradient) {
  graph g;
  const value a = g.variable("a", {2, 3, 4}, initialiser::uniform(-1, 1));
  const value b = g.variable("b", {4, 5}, initialiser::uniform(-1, 1));
  const auto first = gradients(reduce_sum(matmul(a, b) * matmul(a, b)), std::vector<value>{b});
  expect_gradients(*first[0].dense, {a, b});
}

TEST(Matmul, NamesLineAndShapesOfAMismatch) {
  graph g;
  const value a = g.constant(tensor{{64, 784}}), b = g.constant(tensor{{512, 10}});
  const auto line = std::to_string(__LINE__ + 1);
  const auto wrong = [&] { matmul(a, b); };
  EXPECT_THAT(wrong, ThrowsMessage<graph_error>(AllOf(HasSubstr("matmul_test.cpp:" + line),
                                                      HasSubstr("matmul(float32 64x784, float32 512x10)"),
                                                      HasSubstr("inner extents 784 and 512 differ"))));
}

TEST(Matmul, WantsMatricesOfEqualBatches) {
  graph g;
  const value two = g.constant(tensor{{2, 3, 3}}), four = g.constant(tensor{{4, 3, 3}});
  EXPECT_THAT([&] { matmul(two, four); }, ThrowsMessage<graph_error>(HasSubstr("the leading axes differ")));
  EXPECT_THAT([&] { matmul(two, g.constant(tensor{{3}})); },
              ThrowsMessage<graph_error>(HasSubstr("a matrix has rank 2 or more, not 1")));
}

} // namespace
} // namespace mailgrad
