#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/weights/predictor.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/built_in.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tests/engine/kinds_of_data.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/engine/weights/drawn_weights.hpp>
#include <mailgrad/tests/support/needs_gpu.hpp>

#include <gmock/gmock.h>

#include <span>
#include <thread>

// Tests of weights, predictions and texts on a queue of a GPU. One source for two GPUs: the simulated one,
// and a real one.

namespace mailgrad {
namespace {

using namespace ::testing;

constexpr device gpu{device_kind::cuda, 0};

/// A model, its data, and first weights.
struct trained_case {
  model_function model;
  std::shared_ptr<const data_split> data;
  std::size_t shards = 2;
  model_request request = request_for(*data, 8);
  parameter_layout layout = lay_out(model, request, shards);
  std::vector<float> weights = testing::first_values(layout, 5);

  evaluation on_host(const dataset& samples) const {
    return evaluate(model, request, layout, weights, samples);
  }
};

/// As many samples for training as for tests, with fewer entries.
std::shared_ptr<const data_split> entries() {
  sparse_features features{10, {0}, {}, {}};
  for (std::int32_t i = 0; i < 24; ++i) {
    features.columns.push_back(i % 10);
    features.values.push_back(1);
    features.offsets.push_back(features.columns.size());
  }
  const std::vector<std::int32_t> labels(24);
  return std::make_shared<data_split>(data_split{
      {std::move(features), labels, testing::small_classes}, testing::sparse_samples(24, 2), "entries", {}});
}

class GpuEvaluation : public ::testing::Test {
protected:
  void SetUp() override { MAILGRAD_NEEDS_GPU(); }

  static void expect_same(const evaluation& found, const evaluation& expected) {
    EXPECT_NEAR(found.loss, expected.loss, 1e-5);
    EXPECT_EQ(found.accuracy, expected.accuracy);
    EXPECT_EQ(found.rmse.has_value(), expected.rmse.has_value());
    if (found.rmse) {
      EXPECT_NEAR(*found.rmse, *expected.rmse, 1e-5);
    }
    EXPECT_EQ(found.confusion, expected.confusion);
    EXPECT_TRUE(found.whole);
  }
};

/// Of more than one pass, a rest, and other samples after these, for those that are small enough.
TEST_F(GpuEvaluation, FindsWhatTheHostFinds) {
  for (const trained_case& c :
       {trained_case{testing::small_model(), testing::small_data(600)},
        trained_case{*built_in_model("mlp:hidden=16"), testing::pictures()},
        trained_case{*built_in_model("lenet"), testing::pictures(28, 10, 4, 6)},
        trained_case{*built_in_model("gpt:layers=1,width=16,heads=2,dropout=0.1"), testing::text()},
        trained_case{*built_in_model("dlrm:width=4,bottom=6,top=8"), testing::tastes()},
        trained_case{*built_in_model("softmax"), entries()}}) {
    SCOPED_TRACE(c.data->name);
    tested_model there(c.model, c.request, c.layout, gpu);
    there.use("test", c.weights);
    const std::vector<float> found = predict(there, c.data->test),
                             expected = predict(c.model, c.request, c.layout, c.weights, c.data->test);
    for (int again = 0; again < 2; ++again)
      for (const dataset* samples : {&c.data->train, &c.data->test})
        expect_same(evaluate(there, *samples), c.on_host(*samples));
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5) << i;
  }
}

TEST_F(GpuEvaluation, WritesTheTextThatTheHostWrites) {
  const trained_case c{*built_in_model("gpt:layers=2,width=16,heads=2"), testing::text()};
  tested_model there(c.model, c.request, c.layout, gpu);
  there.use("test", c.weights);
  for (const double temperature : {0.0, 0.8, 3.0}) {
    const text_sample_options o{.length = 24, .temperature = temperature, .seed = 3, .prompt = "abe"};
    EXPECT_EQ(write_text(there, c.data->class_names, o),
              write_text(c.model, c.request, c.layout, c.weights, c.data->class_names, o));
  }
}

TEST_F(GpuEvaluation, TestsTheLastWeightsThatItWasGiven) {
  trained_case c{testing::small_model(), testing::small_data()};
  tested_model there(c.model, c.request, c.layout, gpu);
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    c.weights = testing::first_values(c.layout, seed);
    there.use("test", c.weights);
    expect_same(evaluate(there, c.data->test), c.on_host(c.data->test));
  }
}

/// One of both shards lies on the GPU, where it goes on at once when it has been read.
TEST_F(GpuEvaluation, ReadsShardsWhereTheyAre) {
  trained_case c{testing::small_model(), testing::small_data()};
  const auto queue = std::make_shared<cuda::gpu_queue>(0);
  shard here(c.layout, 0, 5, testing::sgd(0.1)), far(c.layout, 1, 5, testing::sgd(0.1), queue);
  tested_model there(c.model, c.request, c.layout, gpu);
  std::vector<float> seen(c.layout.size());
  for (int i = 0; i < 3; ++i) {
    there.use(std::uint32_t{0}, here.snapshot());
    there.use(1, far.snapshot());
    const snapshot copy = far.host_snapshot();
    const auto g = make_gradient(c.layout);
    std::ranges::fill(g->dense.on_host<float>(), 1.0F);
    testing::update_once(far, far.reachable(g));
    queue->finish(); // the GPU may be as late as it likes with the weights that were read
    std::ranges::copy(here.snapshot().on_host(), c.weights.begin());
    std::ranges::copy(copy.on_host(),
                      c.weights.begin() + static_cast<std::ptrdiff_t>(c.layout.shard(1).begin));
    expect_same(evaluate(there, c.data->test), c.on_host(c.data->test));
    there.copy_weights(seen);
    EXPECT_EQ(seen, c.weights);
  }
}

TEST_F(GpuEvaluation, IsMadeTwiceAtOnce) {
  const trained_case c{testing::small_model(), testing::small_data(300)};
  const evaluation expected = c.on_host(c.data->train);
  std::vector<evaluation> found(2);
  std::vector<std::thread> both;
  for (evaluation& e : found)
    both.emplace_back([&c, &e] {
      tested_model there(c.model, c.request, c.layout, gpu);
      there.use("test", c.weights);
      for (int i = 0; i < 3; ++i) e = evaluate(there, c.data->train);
    });
  for (std::thread& t : both) t.join();
  for (const evaluation& e : found) expect_same(e, expected);
}

/// The table lacks the last token.
model_outputs next_from_short_table(graph& g, const model_request& r) {
  const value x = g.input("features", {r.batch, r.sample_dims[0]}, dtype::int32);
  const value labels = g.input("labels", {r.batch, r.sample_dims[0]}, dtype::int32);
  const value logits = embedding(x, r.classes - 1, r.classes, "table");
  return {logits, cross_entropy(logits, labels)};
}

TEST_F(GpuEvaluation, RefusesRowsThatAreNoneAsTheHostDoes) {
  const trained_case c{next_from_short_table, testing::text(), 1};
  std::string on_host;
  try {
    c.on_host(c.data->test);
  } catch (const std::out_of_range& e) {
    on_host = e.what();
  }
  ASSERT_THAT(on_host, HasSubstr("row 4 of a table of 4 rows"));
  tested_model there(c.model, c.request, c.layout, gpu);
  there.use("test", c.weights);
  for (int again = 0; again < 2; ++again)
    EXPECT_THAT([&] { evaluate(there, c.data->test); }, ThrowsMessage<std::out_of_range>(on_host));
}

TEST_F(GpuEvaluation, ComputesFewWindowsOfATextAtOnce) {
  const trained_case c{testing::small_model(), testing::small_data()};
  const auto at_once = [&](std::size_t window, std::size_t classes) {
    model_request r = c.request;
    r.features = feature_kind::tokens;
    r.sample_dims = {window};
    r.classes = classes;
    return tested_model(c.model, r, c.layout, gpu).samples_at_once();
  };
  EXPECT_EQ(at_once(6, 5), 256U);
  EXPECT_EQ(at_once(1024, 65), 64U);
  EXPECT_EQ(at_once(1024, 50'000), 1U);
  EXPECT_EQ(at_once(std::size_t{1} << 20, 65), 1U);
  EXPECT_EQ(tested_model(c.model, c.request, c.layout, gpu).samples_at_once(), 256U);
}

TEST_F(GpuEvaluation, RefusesWeightsOfAnotherModel) {
  const trained_case c{testing::small_model(), testing::small_data()};
  tested_model there(c.model, c.request, c.layout, gpu);
  const std::span<const float> few = std::span(c.weights).first(3);
  EXPECT_THAT([&] { there.use("mine", few); }, ThrowsMessage<shape_error>(HasSubstr("mine: 3 weights")));
  EXPECT_THAT([&] { there.use(std::uint32_t{0}, few); },
              ThrowsMessage<shape_error>(HasSubstr("weights of a shard")));
  EXPECT_THROW(there.use(2, few), std::invalid_argument);
}

class GpuPredictor : public ::testing::Test {
protected:
  void SetUp() override { MAILGRAD_NEEDS_GPU(); }

  static void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5) << i;
  }
};

TEST_F(GpuPredictor, AnswersAsTheHostDoes) {
  const auto data = testing::small_data(300);
  const saved_weights trained = testing::drawn_weights(testing::small_model(), *data);
  predictor here(testing::small_model(), trained), made(testing::small_model(), trained, gpu);
  predictor there(std::move(made));
  EXPECT_THROW(predictor(testing::small_model(), trained, device{device_kind::cuda, 99}), device_error);
  const std::vector<float>& numbers = std::get<float_features>(data->train.features()).values;
  for (const std::size_t count : {1U, 3U, 300U, 3U}) {
    const std::span samples = std::span(numbers).first(count * there.inputs());
    std::vector<float> found(count * there.outputs()), expected(found.size());
    there.probabilities(samples, found);
    here.probabilities(samples, expected);
    expect_near(found, expected);
  }
  expect_near(there.answers(data->train), here.answers(data->train));
  const evaluation found = there.test(data->train), expected = here.test(data->train);
  EXPECT_NEAR(found.loss, expected.loss, 1e-5);
  EXPECT_EQ(found.accuracy, expected.accuracy);
  EXPECT_EQ(found.confusion, expected.confusion);
}

TEST_F(GpuPredictor, WritesTheTextThatTheHostWrites) {
  const auto data = testing::text();
  const model_function gpt = *built_in_model("gpt:layers=1,width=16,heads=2");
  const saved_weights trained = testing::drawn_weights(gpt, *data);
  predictor here(gpt, trained), there(gpt, trained, gpu);
  const text_sample_options o{.length = 24, .seed = 3, .prompt = "abe"};
  EXPECT_EQ(there.text(o), here.text(o));
}

} // namespace
} // namespace mailgrad
