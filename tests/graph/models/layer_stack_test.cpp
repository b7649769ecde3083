#include <mailgrad/graph/models/layer_stack.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

namespace mailgrad {
namespace {

using test::is_refused, test::names_of, test::random_tensor, test::run_once, test::tensor_of;
using testing::AllOf, testing::ElementsAre, testing::HasSubstr, testing::Not, testing::ThrowsMessage;

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

using BuildClassifier = test::operation_test;

TEST_F(BuildClassifier, NumbersLayersWithinTheirKind) {
  const conv_options three{{3, 3}, {1, 1}, padding::same(), activation::relu};
  build_classifier(g,
                   {conv_layer{4, three}, pool_layer{}, layer_norm_layer{}, conv_layer{2, three},
                    dense_layer{8, activation::tanh}, dense_layer{}},
                   images());
  EXPECT_THAT(names_of(g.variables()),
              ElementsAre("conv1/weights", "conv1/bias", "layer_norm1/gamma", "layer_norm1/beta",
                          "conv2/weights", "conv2/bias", "dense1/weights", "dense1/bias", "dense2/weights",
                          "dense2/bias"));
  EXPECT_THAT(names_of(g.inputs()), ElementsAre("features", "labels"));
}

TEST_F(BuildClassifier, PredictsANumberASampleIfThatIsWanted) {
  const model_request r{.sample_dims = {2}, .wanted = answer::a_number, .classes = 0, .batch = 3};
  const model_outputs y = build_classifier(g, {dense_layer{4, activation::tanh}, dense_layer{}}, r);
  EXPECT_EQ(y.logits.dims(), (shape{3, 1}));
  EXPECT_EQ(y.loss.dims(), shape{});
  EXPECT_EQ(g.inputs().back().type().type, dtype::float32);
  EXPECT_TRUE(has_operation(g, "mean_squared_error"));
  graph other;
  EXPECT_THAT([&] { build_classifier(other, {dense_layer{2}}, r); },
              is_refused("the last layer gives 3x2 values, where a number for each sample needs 3x1"));
}

TEST_F(BuildClassifier, FlattensImagesForADenseLayer) {
  const model_outputs out = build_classifier(g, {dense_layer{}}, images());
  EXPECT_EQ(g.variables()[0].dims(), (shape{36, 3}));
  EXPECT_EQ(out.logits.dims(), (shape{2, 3}));
  EXPECT_EQ(out.loss.dims(), shape{});
}

TEST_F(BuildClassifier, LosesNothingButTheLogarithmOfTheClassesAtFirst) {
  const model_outputs out = build_classifier(g, {dense_layer{}}, images());
  const tensor zeros({2, 6, 6, 1}), labels = tensor_of<std::int32_t>({2}, {0, 2}); // so are the logits
  EXPECT_NEAR(run_once(out.loss, {{g.inputs()[0], zeros}, {g.inputs()[1], labels}})[0], std::log(3.0F),
              1e-6F);
}

TEST_F(BuildClassifier, ReadsSparseRowsWithItsFirstDenseLayer) {
  const model_outputs out =
      build_classifier(g, {dense_layer{4, activation::relu}, dense_layer{}}, sparse_rows_of(100));
  EXPECT_THAT(names_of(g.inputs()), ElementsAre("columns", "values", "offsets", "labels"));
  EXPECT_EQ(g.variables()[0].dims(), (shape{100, 4}));
  const auto adjoints = gradients(out.loss, g.variables());
  EXPECT_EQ(adjoints[0].sparse.at(0).rows, g.inputs()[0]) << "the rows are the columns of the batch";
  EXPECT_TRUE(adjoints[2].dense);
}

TEST_F(BuildClassifier, ReadsTokensWithAnEmbedding) {
  const model_outputs out =
      build_classifier(g, {embedding_layer{4}, dense_layer{6, activation::gelu}, dense_layer{}}, tokens());
  EXPECT_EQ(out.logits.dims(), (shape{2, 5, 7}));
  EXPECT_EQ(g.inputs()[0].type(), (value_type{{2, 5}, dtype::int32}));
  EXPECT_EQ(g.inputs()[1].type(), (value_type{{2, 5}, dtype::int32}));
  EXPECT_EQ(g.variables()[0].dims(), (shape{7, 4}));
}

TEST_F(BuildClassifier, DropsOutWhileTrainingOnly) {
  const layer_stack layers{dense_layer{4}, dropout_layer{0.5F}, dense_layer{}};
  graph training, evaluation;
  build_classifier(training, layers, images());
  EXPECT_TRUE(has_operation(training, "dropout"));
  model_request request = images();
  request.purpose = phase::evaluation;
  build_classifier(evaluation, layers, request);
  EXPECT_FALSE(has_operation(evaluation, "dropout"));
  EXPECT_EQ(names_of(training.variables()), names_of(evaluation.variables()));
}

TEST_F(BuildClassifier, GivesEachDropoutItsOwnDraws) {
  const auto logits_after = [](const layer_stack& layers, std::uint64_t seed) {
    graph fresh;
    model_request request{.sample_dims = {100}, .classes = 100, .batch = 1};
    request.seed = seed;
    const model_outputs out = build_classifier(fresh, layers, request);
    return run_once(out.logits, {{fresh.inputs()[0], random_tensor({1, 100}, 1, 1, 2)}});
  };
  const dropout_layer half{};
  const auto zeros = [](const std::vector<float>& v) { return std::ranges::count(v, 0.0F); };
  EXPECT_GT(zeros(logits_after({half, half}, 1)), zeros(logits_after({half}, 1)));
  EXPECT_NE(logits_after({half}, 1), logits_after({half}, 2));
}

TEST_F(BuildClassifier, PoolsByMaximumOrMean) {
  const auto logits_after = [](pool_layer::rule how) {
    graph fresh;
    const model_outputs out = build_classifier(fresh, {pool_layer{how, 6, 6}, flatten_layer{}},
                                               {.sample_dims = {6, 6, 1}, .classes = 1, .batch = 1});
    std::vector<float> image(36, 0);
    image[7] = 18;
    return run_once(out.logits, {{fresh.inputs()[0], tensor_of({1, 6, 6, 1}, image)}})[0];
  };
  EXPECT_EQ(logits_after(pool_layer::rule::largest), 18);
  EXPECT_EQ(logits_after(pool_layer::rule::mean), 0.5F);
}

auto building(const layer_stack& layers, const model_request& r) {
  return [=] {
    graph g;
    build_classifier(g, layers, r);
  };
}

TEST_F(BuildClassifier, NamesTheLayerThatDoesNotFit) {
  const conv_options five{{5, 5}, {1, 1}, padding::valid(), activation::none};
  EXPECT_THAT(
      building({conv_layer{4, five}, conv_layer{4, five}, dense_layer{}}, images()),
      ThrowsMessage<graph_error>(AllOf(HasSubstr("layer 2 (conv2): conv2d(float32 2x2x2x4"),
                                       HasSubstr("does not fit"), Not(HasSubstr("layer_stack.cpp")))));
  EXPECT_THAT(building({dense_layer{4}, pool_layer{}}, images()),
              is_refused("layer 2 (pool1): max_pool(float32 2x4)"));
  EXPECT_THAT(building({dropout_layer{}, dense_layer{}}, sparse_rows_of(9)),
              is_refused("layer 1 (dropout1): rows that are mostly zero"));
  EXPECT_THAT(building({dense_layer{}}, tokens()), is_refused("tokens are read by an embedding"));
  EXPECT_THAT(building({embedding_layer{4}}, images()), is_refused("an embedding reads tokens"));
}

TEST_F(BuildClassifier, WantsAValueForEachClass) {
  EXPECT_THAT(building({dense_layer{4}}, images()),
              is_refused("the last layer gives 2x4 values, where 3 classes need 2x3"));
  EXPECT_THROW(building({}, sparse_rows_of(4))(), graph_error);
}

} // namespace
} // namespace mailgrad
