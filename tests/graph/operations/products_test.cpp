#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

namespace mailgrad {
namespace {

using test::drawn_variable, test::expect_gradients, test::is_refused, test::is_refused_here,
    test::random_tensor, test::run_once;
using testing::Each, testing::ElementsAre;
using enum operand_order;

using Matmul = test::operation_test;

TEST_F(Matmul, MultipliesMatrices) {
  const value a = numbers({2, 3}, {1, 2, 3, 4, 5, 6}), b = numbers({3, 2}, {7, 8, 9, 10, 11, 12});
  EXPECT_EQ(matmul(a, b).dims(), (shape{2, 2}));
  EXPECT_THAT(run_once(matmul(a, b)), ElementsAre(58, 64, 139, 154));
}

TEST_F(Matmul, ReadsOperandsTransposed) {
  const value a = numbers({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(run_once(matmul(a, a, {.b = transposed})), ElementsAre(14, 32, 32, 77));
  EXPECT_THAT(run_once(matmul(a, a, {.a = transposed})), ElementsAre(17, 22, 27, 22, 29, 36, 27, 36, 45));
}

TEST_F(Matmul, MultipliesEachMatrixOfABatch) {
  const value a = numbers({2, 1, 2}, {1, 2, 3, 4}), b = numbers({2, 2, 1}, {5, 6, 7, 8});
  EXPECT_EQ(matmul(a, b).dims(), (shape{2, 1, 1}));
  EXPECT_THAT(run_once(matmul(a, b)), ElementsAre(17, 53));
}

TEST_F(Matmul, MultipliesEveryRowByOneMatrix) {
  const value a = numbers({2, 1, 2}, {1, 2, 3, 4}), b = numbers({2, 2}, {5, 6, 7, 8});
  EXPECT_EQ(matmul(a, b).dims(), (shape{2, 1, 2}));
  EXPECT_THAT(run_once(matmul(a, b)), ElementsAre(19, 22, 43, 50));
}

TEST_F(Matmul, OverNothingIsZero) {
  EXPECT_THAT(run_once(matmul(g.constant(tensor{{2, 0}}), g.constant(tensor{{0, 3}}))), Each(0.0F));
}

struct product {
  shape a, b;
  matmul_options orders = {};
};

class MatmulGradients : public testing::TestWithParam<product> {};

TEST_P(MatmulGradients, AgreeWithCentralDifferences) {
  graph g;
  const value a = drawn_variable(g, "a", GetParam().a), b = drawn_variable(g, "b", GetParam().b);
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

TEST_F(Matmul, HasASecondGradient) {
  const value a = drawn("a", {2, 3, 4}), b = drawn("b", {4, 5});
  const auto first = gradients(reduce_sum(matmul(a, b) * matmul(a, b)), std::vector<value>{b});
  expect_gradients(*first[0].dense, {a, b});
}

TEST_F(Matmul, NamesLineAndShapesOfAMismatch) {
  const value a = g.constant(tensor{{64, 784}}), b = g.constant(tensor{{512, 10}});
  EXPECT_THAT([&] { matmul(a, b); },
              is_refused_here("matmul(float32 64x784, float32 512x10)", "inner extents 784 and 512 differ"));
}

TEST_F(Matmul, WantsMatricesOfEqualBatches) {
  const value two = g.constant(tensor{{2, 3, 3}}), four = g.constant(tensor{{4, 3, 3}});
  EXPECT_THAT([&] { matmul(two, four); }, is_refused("the leading axes differ"));
  EXPECT_THAT([&] { matmul(two, g.constant(tensor{{3}})); },
              is_refused("a matrix has rank 2 or more, not 1"));
}

using PairwiseDots = test::operation_test;

TEST_F(PairwiseDots, MultipliesEachTwoVectorsOfASample) {
  const value y = pairwise_dots(numbers({2, 3, 2}, {1, 2, 3, 4, 5, 6, 1, 0, 0, 1, 2, 2}));
  EXPECT_EQ(y.dims(), (shape{2, 3}));
  EXPECT_THAT(run_once(y), ElementsAre(11, 17, 39, 0, 2, 2));
}

TEST_F(PairwiseDots, AgreesWithALoopOnWidthsThatFillNoVector) {
  for (const std::size_t width : {1U, 16U, 19U}) {
    graph fresh;
    const tensor x = random_tensor({3, 5, width}, width);
    const std::vector<float> y = run_once(pairwise_dots(fresh.constant(test::copy_of(x))));
    const auto at = [&](std::size_t s, std::size_t v, std::size_t c) {
      return static_cast<double>(x.values()[(s * 5 + v) * width + c]);
    };
    std::size_t place = 0;
    for (std::size_t s = 0; s < 3; ++s)
      for (std::size_t i = 1; i < 5; ++i)
        for (std::size_t j = 0; j < i; ++j) {
          double sum = 0;
          for (std::size_t c = 0; c < width; ++c) sum += at(s, i, c) * at(s, j, c);
          EXPECT_NEAR(y[place++], sum, 1e-5);
        }
    EXPECT_EQ(place, y.size());
  }
}

TEST_F(PairwiseDots, HasTheGradientOfItsFormula) {
  const value x = drawn("x", {2, 4, 3});
  expect_gradients(pairwise_dots(x), {x});
}

TEST_F(PairwiseDots, RefusesWhatAreNoTwoVectors) {
  EXPECT_THROW(pairwise_dots(g.input("a", {2, 1, 3})), graph_error);
  EXPECT_THROW(pairwise_dots(g.input("b", {2, 3})), graph_error);
  EXPECT_THROW(pairwise_dots(g.input("c", {2, 2, 3}, dtype::int32)), graph_error);
}

} // namespace
} // namespace mailgrad
