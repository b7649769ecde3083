#include <mailgrad/graph/layers.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

namespace mailgrad {
namespace {

using test::drawn_variable, test::expect_gradients, test::feeds, test::is_refused, test::is_refused_here,
    test::names_of, test::random_tensor, test::run_once, test::tensor_of;
using testing::ElementsAre;

const initialiser& first_values(const graph& g, std::size_t variable) {
  return std::get<variable_node>(g.of(g.variables()[variable]).what).first_values;
}

using Dense = test::operation_test;

TEST_F(Dense, NamesItsVariables) {
  const value y = dense(g.input("x", {5, 3}), 4, "hidden");
  EXPECT_EQ(y.dims(), (shape{5, 4}));
  EXPECT_THAT(names_of(g.variables()), ElementsAre("hidden/weights", "hidden/bias"));
  EXPECT_EQ(g.variables()[0].dims(), (shape{3, 4}));
  EXPECT_EQ(g.variables()[1].dims(), shape{4});
}

TEST_F(Dense, MultipliesAddsAndActivates) {
  const value x = g.input("x", {1, 2}), y = dense(x, 3, "layer", activation::relu);
  const feeds fed{{x, tensor_of({1, 2}, {1, 2})},
                  {g.variables()[0], tensor_of({2, 3}, {1, 2, 3, -4, 5, 6})},
                  {g.variables()[1], tensor_of({3}, {0, 1, -20})}};
  EXPECT_THAT(run_once(y, fed), ElementsAre(0, 13, 0));
}

TEST_F(Dense, StartsAsItsActivationNeedsIt) {
  const value x = g.input("x", {1, 50});
  dense(x, 4, "a", activation::relu);
  dense(x, 4, "b", activation::tanh);
  EXPECT_EQ(first_values(g, 0).distribution, initialiser::kind::normal);
  EXPECT_FLOAT_EQ(first_values(g, 0).b, 0.2F); // sqrt(2 / 50)
  EXPECT_EQ(first_values(g, 2).distribution, initialiser::kind::uniform);
  EXPECT_FLOAT_EQ(first_values(g, 2).b, 1.0F / 3); // sqrt(6 / 54)
  EXPECT_EQ(first_values(g, 1).a, 0);
}

TEST_F(Dense, SharesVariablesOfOneName) {
  const value x = g.input("x", {5, 4});
  dense(dense(x, 4, "twice"), 4, "twice");
  EXPECT_EQ(g.variables().size(), 2U);
}

TEST_F(Dense, ReadsTheLastAxisOfSequences) {
  const value x = drawn("x", {2, 3, 4}), y = dense(x, 5, "layer", activation::gelu);
  EXPECT_EQ(y.dims(), (shape{2, 3, 5}));
  expect_gradients(y, g.variables());
}

TEST_F(Dense, HasAGradientUnderEachActivation) {
  for (const activation how : {activation::none, activation::gelu, activation::tanh, activation::sigmoid}) {
    graph fresh;
    const value x = drawn_variable(fresh, "x", {3, 4});
    expect_gradients(dense(x, 2, "layer", how), fresh.variables());
  }
}

TEST_F(Dense, NamesTheUsersLine) {
  const value x = g.input("x", {5});
  EXPECT_THAT([&] { dense(x, 4, "hidden"); }, is_refused_here("hidden takes rows of numbers, not float32 5"));
  dense(g.input("y", {5, 3}), 4, "hidden");
  const value z = g.input("z", {5, 2});
  EXPECT_THAT([&] { dense(z, 4, "hidden"); },
              is_refused("variable 'hidden/weights' of shape 2x4 is already there"));
}

TEST(SparseDense, AgreesWithDense) {
  graph g;
  const value columns = g.constant(tensor_of<std::int32_t>({3}, {1, 0, 2}));
  const value values = g.constant(tensor_of({3}, {2, 3, 4}));
  const value offsets = g.constant(tensor_of<std::int32_t>({3}, {0, 1, 3}));
  const value rows = g.constant(tensor_of({2, 3}, {0, 2, 0, 3, 0, 4}));
  const value y = sparse_dense(columns, values, offsets, 3, 4, "layer", activation::tanh);
  EXPECT_EQ(run_once(y), run_once(dense(rows, 4, "layer", activation::tanh)));
  EXPECT_EQ(g.variables().size(), 2U);
}

using Conv = test::operation_test;

TEST_F(Conv, NamesItsVariables) {
  const value y = conv(g.input("x", {2, 8, 6, 3}), 5, "first", {.window = {3, 2}, .stride = {2, 1}});
  EXPECT_EQ(y.dims(), (shape{2, 4, 6, 5}));
  EXPECT_THAT(names_of(g.variables()), ElementsAre("first/weights", "first/bias"));
  EXPECT_EQ(g.variables()[0].dims(), (shape{3, 2, 3, 5}));
}

TEST_F(Conv, HasAGradient) {
  const value x = drawn("x", {2, 4, 3, 2});
  expect_gradients(conv(x, 3, "layer", {.how = activation::tanh}), g.variables());
}

TEST_F(Conv, WantsImages) {
  const value x = g.input("x", {5, 3});
  EXPECT_THAT([&] { conv(x, 4, "first"); }, is_refused("first takes images of height x width x channels"));
}

TEST(Embedding, LooksUpItsTable) {
  graph g;
  const value y = embedding(g.constant(tensor_of<std::int32_t>({2, 3}, {0, 1, 2, 3, 4, 0})), 5, 7, "words");
  EXPECT_EQ(y.dims(), (shape{2, 3, 7}));
  EXPECT_THAT(names_of(g.variables()), ElementsAre("words/table"));
  EXPECT_FALSE(gradients(reduce_sum(y), g.variables()).front().sparse.empty());
}

TEST(LayerNormLayer, BeginsAsTheNormAlone) {
  graph g;
  const value y = layer_norm(g.constant(random_tensor({4, 8}, 1)), "norm");
  EXPECT_THAT(names_of(g.variables()), ElementsAre("norm/gamma", "norm/beta"));
  const auto rows = run_once(y);
  for (std::size_t r = 0; r < 4; ++r) {
    float sum = 0;
    for (std::size_t c = 0; c < 8; ++c) sum += rows[r * 8 + c];
    EXPECT_NEAR(sum, 0, 1e-4F);
  }
}

TEST(Flatten, KeepsTheBatch) {
  graph g;
  EXPECT_EQ(flatten(g.input("x", {5, 2, 3, 4})).dims(), (shape{5, 24}));
  EXPECT_EQ(flatten(g.input("y", {5})).dims(), (shape{5, 1}));
  EXPECT_THROW(flatten(g.constant(1.0F)), graph_error);
}

} // namespace
} // namespace mailgrad
