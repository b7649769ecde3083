#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/engine/plan/run_tester.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>

namespace mailgrad {
namespace {

using testing::next_from_table;
using namespace ::testing;

model_request request_of(const dataset& d) { return request_for(data_split{d, d, "", {}}, 1); }

/// Of weights that are zeros but for one variable.
evaluation evaluated(const model_function& model, const model_request& request, const std::string& variable,
                     const std::vector<float>& values, const dataset& samples) {
  const parameter_layout layout = lay_out(model, request, 1);
  std::vector<float> all(layout.size());
  const auto found = std::ranges::find(layout.variables(), variable, &placed_variable::name);
  std::ranges::copy(values, all.begin() + static_cast<std::ptrdiff_t>(found->offset));
  return evaluate(model, request, layout, all, samples);
}

model_outputs one_layer(graph& g, const model_request& r) { return build_classifier(g, {dense_layer{}}, r); }

TEST(Evaluation, CountsTheSamplesWhoseLargestLogitIsTheirLabels) {
  const auto data = testing::small_data(300); // more than one pass, and a rest
  const model_request request = request_of(data->train);
  const parameter_layout layout = lay_out(one_layer, request, 2);
  std::vector<float> weights(layout.size()); // the identity: feature c speaks for class c
  const placed_variable& w = layout.variables()[0];
  for (std::size_t c = 0; c < 3; ++c) weights[w.offset + c * w.dims.back() + c] = 1;
  const evaluation e = evaluate(one_layer, request, layout, weights, data->train);
  double right = 0, loss = 0;
  const auto& features = std::get<float_features>(data->train.features()).values;
  for (std::size_t i = 0; i < data->train.size(); ++i) {
    const float* x = features.data() + i * testing::small_features;
    const auto label = static_cast<std::size_t>(data->train.labels()[i]);
    right += std::max_element(x, x + 3) - x == static_cast<std::ptrdiff_t>(label) ? 1 : 0;
    double sum = 0;
    for (std::size_t c = 0; c < 3; ++c) sum += std::exp(static_cast<double>(x[c] - x[label]));
    loss += std::log(sum);
  }
  EXPECT_DOUBLE_EQ(e.accuracy.value(), right / 300);
  EXPECT_FALSE(e.rmse);
  EXPECT_NEAR(e.loss, loss / 300, 1e-5);
}

/// Whole or by shard, and then whole again.
TEST(TestedModel, TestsTheLastWeightsHoweverTheyWereGiven) {
  const auto data = testing::small_data();
  const model_request request = request_of(data->train);
  const model_function build = testing::small_model();
  const parameter_layout layout = lay_out(build, request, 2);
  const std::vector<float> first(layout.size(), 0.25F), second = testing::first_values(layout, 5);
  tested_model model(build, request, layout);
  std::vector<float> seen(layout.size());
  EXPECT_THROW(model.copy_weights(seen), std::logic_error);
  const auto expect_tested = [&](const std::vector<float>& weights) {
    EXPECT_EQ(evaluate(model, data->train).loss, evaluate(build, request, layout, weights, data->train).loss);
    model.copy_weights(seen);
    EXPECT_EQ(seen, weights);
  };
  for (int round = 0; round < 2; ++round) {
    model.use("test", first);
    expect_tested(first);
    for (std::uint32_t s = 0; s < 2; ++s)
      model.use(s, std::span(second).subspan(layout.shard(s).begin, layout.shard(s).size()));
    expect_tested(second);
  }
}

/// It gives all samples one answer, so the share of right ones would say nothing.
TEST(Evaluation, CountsNoClassesOfAModelThatReadsNoSample) {
  const dataset samples = testing::small_samples(300, 1);
  const evaluation e =
      evaluated(find_model("quadratic:dimension=2"), request_of(samples), "x", {2, 2}, samples);
  EXPECT_FALSE(e.accuracy);
  EXPECT_TRUE(e.confusion.empty());
  EXPECT_EQ(e.loss, 4) << "the half of 2^2, in two coordinates";
}

TEST(Evaluation, MeasuresTheDistanceToNumbers) {
  std::vector<float> xs(300);
  std::vector<float> targets;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    xs[i] = static_cast<float>(i % 7);
    targets.push_back(2 * xs[i] + (i % 2 == 0 ? 3.0F : -1.0F)); // off by 3 and by 1 in turns
  }
  const dataset samples(float_features{{1}, xs}, targets);
  const evaluation e = evaluated(one_layer, request_of(samples), "dense1/weights", {2}, samples);
  EXPECT_NEAR(e.rmse.value(), std::sqrt(5.0), 1e-6);
  EXPECT_NEAR(e.loss, 5.0, 1e-5);
  EXPECT_FALSE(e.accuracy);
}

TEST(Evaluation, RefusesAModelOfClassesWhereNumbersAreToBePredicted) {
  const dataset samples(float_features{{1}, {1, 2}}, std::vector<float>{0.5F, 1});
  const model_function model = [](graph& g, const model_request& r) {
    model_request classes = r;
    classes.wanted = answer::a_class;
    classes.classes = 2;
    return build_classifier(g, {dense_layer{}}, classes);
  };
  EXPECT_THAT(
      [&] { lay_out(model, request_of(samples), 1); },
      ThrowsMessage<graph_error>(HasSubstr(
          "input 'labels' of the model is int32, where the data set has float32, numbers to predict")));
}

TEST(Evaluation, EndsEarlyIfItIsAskedTo) {
  const auto data = testing::small_data(800);
  const model_request request = request_of(data->train);
  const parameter_layout layout = lay_out(testing::small_model(), request, 1);
  const std::vector<float> weights(layout.size());
  const auto passes_before = [&](int stop_at) {
    int asked = 0;
    const auto stop = [&] { return ++asked > stop_at; };
    return std::pair(evaluate(testing::small_model(), request, layout, weights, data->train, stop).whole,
                     asked);
  };
  EXPECT_EQ(passes_before(0), std::pair(false, 1));
  EXPECT_EQ(passes_before(2), std::pair(false, 3)) << "nor is the rest of less than a pass run";
  EXPECT_EQ(passes_before(4), std::pair(true, 4)) << "three passes and a rest";
}

TEST(Evaluation, CountsEachTokenOfAWindow) {
  token_windows text{{0, 1, 2, 0, 1, 2, 0, 1, 2, 1}, 3, 3}; // 0 1 2 0 1 2 0 1 2, then a surprise
  const dataset samples(text, {}, 3);
  ASSERT_EQ(samples.size(), 3U);
  const evaluation e =
      evaluated(next_from_table, request_of(samples), "table/table", {0, 5, 0, 0, 0, 5, 5, 0, 0}, samples);
  EXPECT_DOUBLE_EQ(e.accuracy.value(), 8.0 / 9);
}

TEST(Evaluation, TestsRowsWithoutASingleEntry) {
  const dataset samples(sparse_features{2, {0, 0, 0, 0}, {}, {}}, {0, 1, 1}, 2);
  model_request request = request_of(samples);
  request.nonzeros = 4; // as the training set has it
  const evaluation e = evaluated(one_layer, request, "dense1/bias", {0, 1}, samples);
  EXPECT_DOUBLE_EQ(e.accuracy.value(), 2.0 / 3);
}

TEST(FiniteWeights, NameTheVariableAndTheShardOfTheFirstThatIsNot) {
  const parameter_layout layout = testing::layout_of({{"a", {5}}, {"b", {2, 32}}}, 2);
  std::vector<float> weights(layout.size(), 1.0F);
  EXPECT_FALSE(format_not_finite(layout, weights));
  weights[5] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(format_not_finite(layout, weights)) << "in the gap between both variables";
  const placed_variable& b = layout.variables()[1];
  weights[b.offset + 63] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(format_not_finite(layout, weights), "weight 63 of 'b' on shard 1 is -inf");
  weights[b.offset] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(format_not_finite(layout, weights), "weight 0 of 'b' on shard 0 is nan");
  EXPECT_THROW(format_not_finite(layout, std::vector<float>(5)), shape_error);
}

const std::vector<std::string> symbols{"\n", "a", "b", "\xC3\xA4"};
const model_request of_text{
    .sample_dims = {3}, .features = feature_kind::tokens, .classes = symbols.size(), .batch = 7};

/// Row i: logits of what follows symbol i.
std::string written(const std::vector<float>& table, const text_sample_options& options) {
  const parameter_layout layout = lay_out(next_from_table, of_text, 1);
  std::vector<float> parameters(layout.size());
  std::ranges::copy(table, parameters.begin() + static_cast<std::ptrdiff_t>(layout.variables()[0].offset));
  return write_text(next_from_table, of_text, layout, parameters, symbols, options);
}

/// A line break, "a", "b", "ä" in turns.
const std::vector<float> in_turns{0, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0};

TEST(TextSample, WritesTheLikeliestSymbolsAtTemperatureZero) {
  EXPECT_EQ(written(in_turns, {.length = 6, .temperature = 0}), "ab\xC3\xA4\nab");
  EXPECT_EQ(written(in_turns, {.length = 0, .temperature = 0}), "");
}

TEST(TextSample, DrawsSymbolsAsOftenAsTheModelExpectsThem) {
  const float three = std::log(3.0F); // "a" three times as often as "b", the others never
  constexpr float never = -std::numeric_limits<float>::infinity();
  std::vector<float> table;
  for (int row = 0; row < 4; ++row) table.insert(table.end(), {never, three, 0, never});
  const auto share_of_a = [&](double temperature) {
    const std::string text = written(table, {.length = 2000, .temperature = temperature, .seed = 5});
    EXPECT_EQ(text.find_first_not_of("ab"), text.npos);
    return static_cast<double>(std::ranges::count(text, 'a')) / 2000;
  };
  EXPECT_NEAR(share_of_a(1), 0.75, 0.04);
  EXPECT_NEAR(share_of_a(0.5), 0.9, 0.04);
  EXPECT_NEAR(share_of_a(1e6), 0.5, 0.04);
  const auto text = [](std::uint64_t seed) {
    return written(in_turns, {.length = 50, .temperature = 1, .seed = seed});
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(TextSample, ReadsAsMuchAsTheWindowHolds) {
  const model_function gpt = *built_in_model("gpt:layers=1,width=8,heads=2");
  const parameter_layout layout = lay_out(gpt, of_text, 1);
  std::vector<float> parameters(layout.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] = std::sin(static_cast<float>(i * i));
  const auto text = [&](std::size_t length) {
    return write_text(gpt, of_text, layout, parameters, symbols, {.length = length, .temperature = 2});
  };
  EXPECT_TRUE(text(40).starts_with(text(2))) << "before the window is full, and long after";
}

TEST(TextSample, RefusesWhatIsNoTemperatureOrLacksASymbol) {
  for (const double t :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    EXPECT_THAT([&] { written(in_turns, {.length = 1, .temperature = t}); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("temperature: ")));
  const parameter_layout layout = lay_out(next_from_table, of_text, 1);
  const std::vector<float> parameters(layout.size());
  EXPECT_THAT(
      [&] { write_text(next_from_table, of_text, layout, parameters, std::span(symbols).first(3), {}); },
      ThrowsMessage<std::invalid_argument>(HasSubstr("each of 4 classes, not 3")));
}

} // namespace
} // namespace mailgrad
