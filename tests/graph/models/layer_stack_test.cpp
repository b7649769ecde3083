#include <mailgrad/graph/models/layer_stack.hpp>

#include <mailgrad/tests/support/gradient_check.hpp>

#include <gmock/gmock.h>

#include <cmath>

namespace mailgrad {
namespace {

using test::feeds;
using test::random_tensor;
using test::run_once;
using test::tensor_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

std::vector<std::string> names(const graph& g, const std::vector<value>& values) {
  std::vector<std::string> found;
  for (const value& v : values) found.push_back(g.of(v).name);
  return found;
}

model_request images() { return {.sample_dims = {6, 6, 1}, .classes = 3, .batch = 2}; }

model_request sparse_rows_of(std::size_t columns) {
  return {.sample_dims = {columns}, .classes = 2, .batch = 3, .nonzeros = 10};
}

model_request tokens() {
  return {.sample_dims = {5}, .features = feature_kind::tokens, .classes = 7, .batch = 2};
}

bool has_operation(const graph& g, std::string_view name) {
  return std::ranges::any_of(g.nodes(), [&](const node& n) {
    const auto* op = std::get_if<operation_node>(&n.what);
    return op != nullptr && (*op)->name() == name;
  });
}

TEST(BuildClassifier, NumbersLayersWithinTheirKind) {
  graph g;
  const conv_options three{{3, 3}, {1, 1}, padding::same(), activation::relu};
  build_classifier(g,
                   {conv_layer{4, three}, pool_layer{}, layer_norm_layer{}, conv_layer{2, three},
                    dense_layer{8, activation::tanh}, dense_layer{}},
                   images());
  EXPECT_THAT(names(g, g.variables()),
              ElementsAre("conv1/weights", "conv1/bias", "layer_norm1/gamma", "layer_norm1/beta",
                          "conv2/weights", "conv2/bias", "dense1/weights", "dense1/bias", "dense2/weights",
                          "dense2/bias"));
  EXPECT_THAT(names(g, g.inputs()), ElementsAre("features", "labels"));
}

TEST(BuildClassifier, PredictsANumberASampleIfThatIsWanted) {
  graph g;
  const model_request r{.sample_dims = {2}, .wanted = answer::a_number, .classes = 0, .batch = 3};
  const model_outputs y = build_classifier(g, {dense_layer{4, activation::tanh}, dense_layer{}}, r);
  EXPECT_EQ(y.logits.dims(), (shape{3, 1}));
  EXPECT_EQ(y.loss.dims(), shape{});
  EXPECT_EQ(g.inputs().back().type().type, dtype::float32);
  EXPECT_TRUE(has_operation(g, "mean_squared_error"));
  graph other;
  EXPECT_THAT([&] { build_classifier(other, {dense_layer{2}}, r); },
              ThrowsMessage<graph_error>(
                  HasSubstr("the last layer gives 3x2 values, where a number for each sample needs 3x1")));
}

TEST(BuildClassifier, FlattensImagesForADenseLayer) {
  graph g;
  const model_outputs out = build_classifier(g, {dense_layer{}}, images());
  EXPECT_EQ(g.variables()[0].dims(), (shape{36, 3}));
  EXPECT_EQ(out.logits.dims(), (shape{2, 3}));
  EXPECT_EQ(out.loss.dims(), shape{});
}

TEST(BuildClassifier, LosesNothingButTheLogarithmOfTheClassesAtFirst) {
  graph g;
  const model_outputs out = build_classifier(g, {dense_layer{}}, images());
  feeds fed;
  fed.emplace_back(g.inputs()[0], tensor({2, 6, 6, 1})); // all zero, so are the logits
  fed.emplace_back(g.inputs()[1], tensor_of<std::int32_t>({2}, {0, 2}));
  EXPECT_NEAR(run_once(out.loss, fed)[0], std::log(3.0F), 1e-6F);
}

TEST(BuildClassifier, ReadsSparseRowsWithItsFirstDenseLayer) {
  graph g;
  const model_outputs out =
      build_classifier(g, {dense_layer{4, activation::relu}, dense_layer{}}, sparse_rows_of(100));
  EXPECT_THAT(names(g, g.inputs()), ElementsAre("columns", "values", "offsets", "labels"));
  EXPECT_EQ(g.variables()[0].dims(), (shape{100, 4}));
  const auto adjoints = gradients(out.loss, g.variables());
  EXPECT_EQ(adjoints[0].sparse.at(0).rows, g.inputs()[0]) << "the rows are the columns of the batch";
  EXPECT_TRUE(adjoints[2].dense);
}

TEST(BuildClassifier, ReadsTokensWithAnEmbedding) {
  graph g;
  const model_outputs out =
      build_classifier(g, {embedding_layer{4}, dense_layer{6, activation::gelu}, dense_layer{}}, tokens());
  EXPECT_EQ(out.logits.dims(), (shape{2, 5, 7}));
  EXPECT_EQ(g.inputs()[0].type(), (value_type{{2, 5}, dtype::int32}));
  EXPECT_EQ(g.inputs()[1].type(), (value_type{{2, 5}, dtype::int32}));
  EXPECT_EQ(g.variables()[0].dims(), (shape{7, 4}));
}

TEST(BuildClassifier, DropsOutWhileTrainingOnly) {
  const layer_stack layers{dense_layer{4}, dropout_layer{0.5F}, dense_layer{}};
  graph training, evaluation;
  build_classifier(training, layers, images());
  EXPECT_TRUE(has_operation(training, "dropout"));
  model_request request = images();
  request.purpose = phase::evaluation;
  build_classifier(evaluation, layers, request);
  EXPECT_FALSE(has_operation(evaluation, "dropout"));
  EXPECT_EQ(names(training, training.variables()), names(evaluation, evaluation.variables()));
}

TEST(BuildClassifier, GivesEachDropoutItsOwnDraws) {
  const auto logits_after = [](const layer_stack& layers, std::uint64_t seed) {
    graph g;
    model_request request{.sample_dims = {100}, .classes = 100, .batch = 1};
    request.seed = seed;
    const model_outputs out = build_classifier(g, layers, request);
    feeds fed;
    fed.emplace_back(g.inputs()[0], random_tensor({1, 100}, 1, 1, 2));
    return run_once(out.logits, fed);
  };
  const dropout_layer half{};
  const auto zeros = [](const std::vector<float>& v) { return std::ranges::count(v, 0.0F); };
  EXPECT_GT(zeros(logits_after({half, half}, 1)), zeros(logits_after({half}, 1)));
  EXPECT_NE(logits_after({half}, 1), logits_after({half}, 2));
}

TEST(BuildClassifier, PoolsByMaximumOrMean) {
  const auto logits_after = [](pool_layer::rule how) {
    graph g;
    const model_outputs out = build_classifier(g, {pool_layer{how, 6, 6}, flatten_layer{}},
                                               {.sample_dims = {6, 6, 1}, .classes = 1, .batch = 1});
    feeds fed;
    std::vector<float> image(36, 0);
    image[7] = 18;
    fed.emplace_back(g.inputs()[0], tensor_of({1, 6, 6, 1}, image));
    return run_once(out.logits, fed)[0];
  };
  EXPECT_EQ(logits_after(pool_layer::rule::largest), 18);
  EXPECT_EQ(logits_after(pool_layer::rule::mean), 0.5F);
}

TEST(BuildClassifier, NamesTheLayerThatDoesNotFit) {
  graph g;
  const conv_options five{{5, 5}, {1, 1}, padding::valid(), activation::none};
  EXPECT_THAT(
      [&] {
        build_classifier(g, {conv_layer{4, five}, conv_layer{4, five}, dense_layer{}}, images());
      },
      ThrowsMessage<graph_error>(AllOf(HasSubstr("layer 2 (conv2): conv2d(float32 2x2x2x4"),
                                       HasSubstr("does not fit"), Not(HasSubstr("layer_stack.cpp")))));
  graph flat;
  EXPECT_THAT(
      [&] {
        build_classifier(flat, {dense_layer{4}, pool_layer{}}, images());
      },
      ThrowsMessage<graph_error>(HasSubstr("layer 2 (pool1): max_pool(float32 2x4)")));
  graph rows;
  EXPECT_THAT(
      [&] {
        build_classifier(rows, {dropout_layer{}, dense_layer{}}, sparse_rows_of(9));
      },
      ThrowsMessage<graph_error>(HasSubstr("layer 1 (dropout1): rows that are mostly zero")));
  graph text;
  EXPECT_THAT([&] { build_classifier(text, {dense_layer{}}, tokens()); },
              ThrowsMessage<graph_error>(HasSubstr("tokens are read by an embedding")));
  graph picture;
  EXPECT_THAT([&] { build_classifier(picture, {embedding_layer{4}}, images()); },
              ThrowsMessage<graph_error>(HasSubstr("an embedding reads tokens")));
}

TEST(BuildClassifier, WantsAValueForEachClass) {
  graph g;
  EXPECT_THAT(
      [&] { build_classifier(g, {dense_layer{4}}, images()); },
      ThrowsMessage<graph_error>(HasSubstr("the last layer gives 2x4 values, where 3 classes need 2x3")));
  graph none;
  EXPECT_THROW(build_classifier(none, {}, sparse_rows_of(4)), graph_error);
}

} // namespace
} // namespace mailgrad
