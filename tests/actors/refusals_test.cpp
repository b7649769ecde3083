#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/actors/shard/custom_parameter_actor.hpp>
#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/operations.hpp>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

// Wrong shapes, lengths and nulls, wherever a program hands in a model, data or weights.

namespace mailgrad {
namespace {

using testing::expect_refused;
using testing::options_for;
using testing::small_data;
using testing::small_model;
using testing::sparse_data;

constexpr const char* here = "refusals_test.cpp:";

/// Pictures of 28 x 28 x 1, as Fashion-MNIST has them, all black.
std::shared_ptr<const data_split> pictures(const shape& dims = {28, 28, 1}) {
  const auto samples = [&](std::size_t count) {
    return dataset(byte_features{dims, std::vector<std::uint8_t>(count * dims.size())},
                   std::vector<std::int32_t>(count), 10);
  };
  return std::make_shared<data_split>(data_split{samples(64), samples(16), "black", {}});
}

/// Asks for features of these extents, whatever the samples are.
model_function reading(std::function<shape(const model_request&)> dims, std::size_t classes = 10) {
  return [dims = std::move(dims), classes](graph& g, const model_request& r) {
    const value x = g.input("features", dims(r));
    const value logits = dense(flatten(x), classes, "logits");
    return model_outputs{logits, cross_entropy(logits, g.input("labels", {x.dims()[0]}, dtype::int32))};
  };
}

std::function<void()> trained(model_function model, std::shared_ptr<const data_split> data,
                              std::size_t batch = 8) {
  return [model = std::move(model), data = std::move(data), batch] {
    training_options o = options_for("async", 1);
    o.batch = batch;
    training(model, data, o);
  };
}

TEST(Refusals, OfInputsThatNoBatchFeeds) {
  const auto batch_of_64 = [](const model_request&) { return shape{64, 28, 28, 1}; };
  const auto quarter = [](const model_request& r) { return shape{r.batch, 14, 14, 1}; };
  const auto colours = [](const model_request& r) { return shape{r.batch, 28, 28, 4}; };
  const auto rows = [](const model_request& r) { return shape{r.batch, 784}; };
  const auto one_more = [](const model_request& r) { return shape{r.batch + 1, 28, 28, 1}; };
  expect_refused({
      {"a batch that is not asked for", trained(reading(batch_of_64), pictures(), 64), here},
      {"a batch that is not asked for", trained(reading(batch_of_64), pictures(), 64),
       "input 'features' of the model has shape 64x28x28x1, where a batch of 1 sample has 1x28x28x1"},
      {"a quarter of each picture", trained(reading(quarter), pictures()),
       "has shape 8x14x14x1, where a batch of 8 samples has 8x28x28x1"},
      {"colours that are not there", trained(reading(colours), pictures()),
       "has shape 8x28x28x4, where a batch of 8 samples has 8x28x28x1"},
      {"pictures as rows", trained(reading(rows), pictures()), "has shape 8x784"},
      {"one sample more", trained(reading(one_more), pictures()), "has shape 9x28x28x1"},
      {"classes that are not there",
       trained(reading(
                   [](const auto& r) {
                     return shape{r.batch, 4};
                   },
                   5),
               small_data()),
       "3 classes in a batch of 8 need logits of float32 8x3, not float32 8x5"},
  });
}

TEST(Refusals, OfInputsByOtherNames) {
  const auto with_input = [](const std::string& name, shape dims, dtype type) {
    return [=](graph& g, const model_request& r) {
      g.input(name, dims, type);
      return small_model()(g, r);
    };
  };
  const auto sparse_model = [](shape columns, shape offsets) {
    return [=](graph& g, const model_request& r) {
      const value y =
          sparse_dense(g.input("columns", columns, dtype::int32), g.input("values", columns),
                       g.input("offsets", offsets, dtype::int32), r.sample_dims[0], r.classes, "s");
      return model_outputs{y, cross_entropy(y, g.input("labels", {offsets[0] - 1}, dtype::int32))};
    };
  };
  expect_refused({
      {"unknown", trained(with_input("pixels", {8, 4}, dtype::float32), small_data()),
       "input 'pixels' of the model is not part of a batch"},
      {"unknown", trained(with_input("pixels", {8, 4}, dtype::float32), small_data()), here},
      {"columns of dense samples", trained(with_input("columns", {3}, dtype::int32), small_data()),
       "input 'columns' of the model reads what this data set has none of"},
      {"categories of dense samples", trained(with_input("categories", {8, 1}, dtype::int32), small_data()),
       "none of"},
      {"features of sparse samples",
       trained(reading(
                   [](const auto& r) {
                     return shape{r.batch, r.sample_dims[0]};
                   },
                   3),
               sparse_data()),
       "none of"},
      {"too few columns", trained(sparse_model({2}, {9}), sparse_data()),
       "of the model has shape 2, where a batch of 8 samples has 24"},
      {"too many offsets", trained(sparse_model({24}, {10}), sparse_data()),
       "input 'offsets' of the model has shape 10"},
  });
}

TEST(Refusals, OfRunsWithoutModelOrData) {
  const auto run = [](auto change) {
    return [change] {
      training_options o = options_for("async", 1);
      model_function model = small_model();
      std::shared_ptr<const data_split> data = small_data();
      std::shared_ptr<const time_source> time = std::make_shared<machine_time>();
      change(o, model, data, time);
      training(model, data, o, time);
    };
  };
  const auto no_loss = [](graph& g, const model_request& r) {
    return model_outputs{small_model()(g, r).logits, {}};
  };
  const auto nothing = [](graph&, const model_request&) { return model_outputs{}; };
  expect_refused({
      {"no model", run([](auto&, auto& model, auto&, auto&) { model = {}; }), "no function"},
      {"no data", run([](auto&, auto&, auto& data, auto&) { data = {}; }), "no data set"},
      {"no time", run([](auto&, auto&, auto&, auto& time) { time = {}; }), "no time source"},
      {"empty data", run([](auto&, auto&, auto& data, auto&) { data = std::make_shared<data_split>(); }),
       "no sample"},
      {"no loss", run([&](auto&, auto& model, auto&, auto&) { model = no_loss; }), "no loss"},
      {"no answer", run([&](auto&, auto& model, auto&, auto&) { model = nothing; }), "no loss"},
      {"no batch", run([](auto& o, auto&, auto&, auto&) { o.batch = 0; }), "batch: 0"},
      {"a batch of more than there is", run([](auto& o, auto&, auto&, auto&) { o.batch = ~std::size_t{0}; }),
       "batch: 18446744073709551615"},
      {"no shards", run([](auto& o, auto&, auto&, auto&) { o.shards = 0; }), "shards: 0"},
      {"no devices", run([](auto& o, auto&, auto&, auto&) { o.devices.clear(); }), "devices"},
      {"workers without devices", run([](auto& o, auto&, auto&, auto&) { o.workers = 7; }), "workers"},
      {"no micro-batches", run([](auto& o, auto&, auto&, auto&) { o.micro_batches = 0; }), "micro-batches"},
      {"nothing to do", run([](auto& o, auto&, auto&, auto&) { o.epochs = 0; }), "nothing to do"},
      {"a rule without a table", run([](auto& o, auto&, auto&, auto&) { o.optimizer.rule = custom_rule{}; }),
       "optimizer"},
      {"a parameter actor that nobody spawns", run([](auto& o, auto&, auto&, auto&) {
         o.parameter_actor = std::make_shared<parameter_actor_kind>("mine", false);
       }),
       "parameter actor 'mine': make_custom_parameter_actor() makes one"},
      {"no pictures like those to train on", run([](auto&, auto&, auto& data, auto&) {
         data_split split = *small_data();
         split.test = pictures()->test;
         data = std::make_shared<data_split>(split);
       }),
       "data: samples of 28x28x1, where the model was built for 4"},
      {"more classes to test on", run([](auto&, auto&, auto& data, auto&) {
         data_split split = *small_data();
         split.test = dataset(float_features{{4}, std::vector<float>(4)}, {4}, 5);
         data = std::make_shared<data_split>(split);
       }),
       "data: labels of 5 classes, where the model was built for 3"},
      {"numbers to test on", run([](auto&, auto&, auto& data, auto&) {
         data_split split = *small_data();
         split.test = dataset(float_features{{4}, std::vector<float>(4)}, std::vector<float>{1});
         data = std::make_shared<data_split>(split);
       }),
       "data: labels of numbers, where the model was built for classes"},
  });
}

TEST(Refusals, OfCrewsThatCannotRun) {
  const auto crew = [](const std::function<void(run_plan&, run_crew_options&)>& spoil) {
    return [=] {
      run_plan plan = plan_run(small_model(), small_data(), options_for("async", 1));
      run_crew_options options{std::make_shared<machine_time>()};
      spoil(plan, options);
      run_home home(plan.options.devices);
      run_crew(home.system(), std::move(plan), std::move(options));
    };
  };
  expect_refused({
      {"no time", crew([](auto&, auto& o) { o.time.reset(); }), "run_crew: there is no time source"},
      {"no layout", crew([](auto& p, auto&) { p.layout.reset(); }), "the plan has no layout"},
      {"no policy", crew([](auto& p, auto&) { p.policies.clear(); }), "the plan has no policy"},
      {"no data", crew([](auto& p, auto&) { p.data.reset(); }), "a feeder, but no data"},
      {"no model", crew([](auto& p, auto&) { p.model = nullptr; }), "workers, but no model"},
      {"workers without shards", crew([](auto&, auto& o) { o.roles.shards = false; }), "workers need shards"},
      {"workers without a feeder", crew([](auto&, auto& o) { o.roles.feeder = false; }), "a feeder"},
      {"a coordinator without a feeder", crew([](auto&, auto& o) {
         o.roles = {true, false, true, false};
       }),
       "a coordinator needs a feeder"},
      {"workers alone", crew([](auto&, auto& o) {
         o.roles = {false, false, false, true};
       }),
       "a coordinator"},
  });
}

TEST(Refusals, OfEvaluationsOfOtherWeightsOrSamples) {
  const auto data = small_data();
  const model_request request = request_for(*data, 8);
  const parameter_layout layout = lay_out(small_model(), request, 2);
  const std::vector<float> weights(layout.size());
  const auto with = [&](const model_function& model, std::span<const float> w, const dataset& samples) {
    return [&, model, w] { evaluate(model, request, layout, w, samples); };
  };
  const auto colourful = pictures({28, 28, 4});
  const dataset one_class(float_features{{4}, std::vector<float>(4)}, {0}, 1);
  expect_refused({
      {"ten weights", with(small_model(), std::span(weights).first(10), data->test),
       "evaluate: 10 weights, where the layout has " + std::to_string(layout.size())},
      {"no weights", with(small_model(), {}, data->test), "evaluate: 0 weights"},
      {"no model", with({}, weights, data->test), "no function"},
      {"other samples", with(small_model(), weights, colourful->test), "samples of 28x28x4"},
      {"sparse samples", with(small_model(), weights, sparse_data()->test), "samples of 10"},
      {"a model of other weights",
       with(reading(
                [](const auto& r) {
                  return shape{r.batch, 4};
                },
                3),
            weights, data->test),
       "variable 'logits/weights'"},
  });
  EXPECT_TRUE(evaluate(small_model(), request, layout, weights, one_class).whole)
      << "some classes may be missing";
}

TEST(Refusals, OfServersWithoutWorkersOrDevices) {
  const auto serving = [](std::uint32_t workers, std::uint32_t devices) {
    return [workers, devices] {
      remote::serve_options serve;
      serve.workers = workers;
      serve.devices = devices;
      training(small_model(), small_data(), options_for("async", 1), serve);
    };
  };
  expect_refused({
      {"no workers", serving(0, 1), "found 0 workers of 1 devices"},
      {"no devices", serving(1, 0), "found 1 workers of 0 devices"},
      {"more than can be counted", serving(1U << 16U, 1U << 16U), "65536 workers of 65536 devices"},
  });
}

} // namespace
} // namespace mailgrad
