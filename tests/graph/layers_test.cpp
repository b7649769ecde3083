#include <mailgrad/graph/layers.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using test::expect_gradients;
using test::feeds;
using test::random_tensor;
using test::run_once;
using test::tensor_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<std::string> variable_names(const graph& g) {
  std::vector<std::string> names;
  for (const value& v : g.variables()) names.push_back(g.of(v).name);
  return names;
}

const initialiser& first_values(const graph& g, std::size_t variable) {
  return std::get<variable_node>(g.of(g.variables()[variable]).what).first_values;
}

TEST(Dense, NamesItsVariables) {
  graph g;
  const value y = dense(g.input("x", {5, 3}), 4, "hidden");
  EXPECT_EQ(y.dims(), (shape{5, 4}));
  EXPECT_THAT(variable_names(g), ElementsAre("hidden/weights", "hidden/bias"));
  EXPECT_EQ(g.variables()[0].dims(), (shape{3, 4}));
  EXPECT_EQ(g.variables()[1].dims(), shape{4});
}

TEST(Dense, MultipliesAddsAndActivates) {
  graph g;
  const value x = g.input("x", {1, 2});
  const value y = dense(x, 3, "layer", activation::relu);
  feeds fed;
  fed.emplace_back(x, tensor_of({1, 2}, {1, 2}));
  fed.emplace_back(g.variables()[0], tensor_of({2, 3}, {1, 2, 3, -4, 5, 6}));
  fed.emplace_back(g.variables()[1], tensor_of({3}, {0, 1, -20}));
  EXPECT_THAT(run_once(y, fed), ElementsAre(0, 13, 0));
}

TEST(Dense, StartsAsItsActivationNeedsIt) {
  graph g;
  const value x = g.input("x", {1, 50});
  dense(x, 4, "a", activation::relu);
  dense(x, 4, "b", activation::tanh);
  EXPECT_EQ(first_values(g, 0).distribution, initialiser::kind::normal);
  EXPECT_FLOAT_EQ(first_values(g, 0).b, 0.2F); // sqrt(2 / 50)
  EXPECT_EQ(first_values(g, 2).distribution, initialiser::kind::uniform);
  EXPECT_FLOAT_EQ(first_values(g, 2).b, 1.0F / 3); // sqrt(6 / 54)
  EXPECT_EQ(first_values(g, 1).a, 0);
}

TEST(Dense, SharesVariablesOfOneName) {
  graph g;
  const value x = g.input("x", {5, 4});
  dense(dense(x, 4, "twice"), 4, "twice");
  EXPECT_EQ(g.variables().size(), 2U);
}

TEST(Dense, ReadsTheLastAxisOfSequences) {
  graph g;
  const value x = g.variable("x", {2, 3, 4}, initialiser::uniform(-1, 1));
  const value y = dense(x, 5, "layer", activation::gelu);
  EXPECT_EQ(y.dims(), (shape{2, 3, 5}));
  expect_gradients(y, g.variables());
}

TEST(Dense, HasAGradientUnderEachActivation) {
  for (const activation how : {activation::none, activation::gelu, activation::tanh, activation::sigmoid}) {
    graph g;
    const value x = g.variable("x", {3, 4}, initialiser::uniform(-1, 1));
    expect_gradients(dense(x, 2, "layer", how), g.variables());
  }
}

TEST(Dense, NamesTheUsersLine) {
  graph g;
  const value x = g.input("x", {5});
  const std::string line = std::to_string(__LINE__ + 1);
  const auto wrong = [&] { dense(x, 4, "hidden"); };
  EXPECT_THAT(wrong,
              ThrowsMessage<graph_error>(AllOf(HasSubstr("layers_test.cpp:" + line),
                                               HasSubstr("hidden takes rows of numbers, not float32 5"))));
  dense(g.input("y", {5, 3}), 4, "hidden");
  EXPECT_THAT(
      [&] {
        dense(g.input("z", {5, 2}), 4, "hidden");
      },
      ThrowsMessage<graph_error>(HasSubstr("variable 'hidden/weights' of shape 2x4 is already there")));
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

TEST(Conv, NamesItsVariables) {
  graph g;
  const value y = conv(g.input("x", {2, 8, 6, 3}), 5, "first", {.window = {3, 2}, .stride = {2, 1}});
  EXPECT_EQ(y.dims(), (shape{2, 4, 6, 5}));
  EXPECT_THAT(variable_names(g), ElementsAre("first/weights", "first/bias"));
  EXPECT_EQ(g.variables()[0].dims(), (shape{3, 2, 3, 5}));
}

TEST(Conv, HasAGradient) {
  graph g;
  const value x = g.variable("x", {2, 4, 3, 2}, initialiser::uniform(-1, 1));
  expect_gradients(conv(x, 3, "layer", {.how = activation::tanh}), g.variables());
}

TEST(Conv, WantsImages) {
  graph g;
  const value x = g.input("x", {5, 3});
  EXPECT_THAT([&] { conv(x, 4, "first"); },
              ThrowsMessage<graph_error>(HasSubstr("first takes images of height x width x channels")));
}

TEST(Embedding, LooksUpItsTable) {
  graph g;
  const value y = embedding(g.constant(tensor_of<std::int32_t>({2, 3}, {0, 1, 2, 3, 4, 0})), 5, 7, "words");
  EXPECT_EQ(y.dims(), (shape{2, 3, 7}));
  EXPECT_THAT(variable_names(g), ElementsAre("words/table"));
  EXPECT_FALSE(gradients(reduce_sum(y), g.variables()).front().sparse.empty());
}

TEST(LayerNormLayer, BeginsAsTheNormAlone) {
  graph g;
  const value y = layer_norm(g.constant(random_tensor({4, 8}, 1)), "norm");
  EXPECT_THAT(variable_names(g), ElementsAre("norm/gamma", "norm/beta"));
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
