#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/actors/shard/custom_parameter_actor.hpp>
#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <zlib.h>

#include <span>
#include <sstream>

namespace mailgrad {
namespace {

using testing::expect_refused, testing::options_for, testing::small_data, testing::small_model,
    testing::sparse_data;

// Wrong shapes, lengths and nulls, wherever a program hands something in.

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

shape four_columns(const model_request& r) { return {r.batch, 4}; }

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
      {"classes that are not there", trained(reading(four_columns, 5), small_data()),
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
  const auto all_columns = [](const model_request& r) { return shape{r.batch, r.sample_dims[0]}; };
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
      {"features of sparse samples", trained(reading(all_columns, 3), sparse_data()), "none of"},
      {"too few columns", trained(sparse_model({2}, {9}), sparse_data()),
       "of the model has shape 2, where a batch of 8 samples has 24"},
      {"too many offsets", trained(sparse_model({24}, {10}), sparse_data()),
       "input 'offsets' of the model has shape 10"},
  });
}

TEST(Refusals, OfRunsWithoutModelOrData) {
  struct arguments {
    training_options options = options_for("async", 1);
    model_function model = small_model();
    std::shared_ptr<const data_split> data = small_data();
    std::shared_ptr<const time_source> time = std::make_shared<machine_time>();
  };
  const auto run = [](const std::function<void(arguments&)>& change) {
    return [change] {
      arguments a;
      change(a);
      training(a.model, a.data, a.options, a.time);
    };
  };
  const auto option = [&](const std::function<void(training_options&)>& change) {
    return run([change](arguments& a) { change(a.options); });
  };
  const auto tested_on = [&](dataset test) {
    const auto split = std::make_shared<data_split>(*small_data());
    split->test = std::move(test);
    return run([split](arguments& a) { a.data = split; });
  };
  const float_features four{{4}, std::vector<float>(4)};
  const auto no_loss = [](graph& g, const model_request& r) {
    return model_outputs{small_model()(g, r).logits, {}};
  };
  const auto nothing = [](graph&, const model_request&) { return model_outputs{}; };
  expect_refused({
      {"no model", run([](auto& a) { a.model = {}; }), "no function"},
      {"no data", run([](auto& a) { a.data = {}; }), "no data set"},
      {"no time", run([](auto& a) { a.time = {}; }), "no time source"},
      {"empty data", run([](auto& a) { a.data = std::make_shared<data_split>(); }), "no sample"},
      {"no loss", run([&](auto& a) { a.model = no_loss; }), "no loss"},
      {"no answer", run([&](auto& a) { a.model = nothing; }), "no loss"},
      {"no batch", option([](auto& o) { o.batch = 0; }), "batch: 0"},
      {"a batch of more than there is", option([](auto& o) { o.batch = ~std::size_t{0}; }),
       "batch: 18446744073709551615"},
      {"no shards", option([](auto& o) { o.shards = 0; }), "shards: 0"},
      {"no devices", option([](auto& o) { o.devices.clear(); }), "devices"},
      {"workers without devices", option([](auto& o) { o.workers = 7; }), "workers"},
      {"no micro-batches", option([](auto& o) { o.micro_batches = 0; }), "micro-batches"},
      {"nothing to do", option([](auto& o) { o.epochs = 0; }), "nothing to do"},
      {"a rule without a table", option([](auto& o) { o.optimizer.rule = custom_rule{}; }), "optimizer"},
      {"a parameter actor that nobody spawns",
       option([](auto& o) { o.parameter_actor = std::make_shared<parameter_actor_kind>("mine", false); }),
       "parameter actor 'mine': make_custom_parameter_actor() makes one"},
      {"no pictures like those to train on", tested_on(pictures()->test),
       "data: samples of 28x28x1, where the model was built for 4"},
      {"more classes to test on", tested_on(dataset(four, std::vector<std::int32_t>{4}, 5)),
       "data: labels of 5 classes, where the model was built for 3"},
      {"numbers to test on", tested_on(dataset(four, std::vector<float>{1})),
       "data: labels of numbers, where the model was built for classes"},
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
      {"a model of other weights", with(reading(four_columns, 3), weights, data->test),
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

TEST(Refusals, OfTextsByModelsOfOtherThings) {
  const std::vector<std::string> symbols{"a", "b"};
  const model_request request{.sample_dims = {3}, .features = feature_kind::tokens, .classes = 2};
  const model_function model = [](graph& g, const model_request& r) {
    const value x = g.input("features", {r.batch, 3}, dtype::int32);
    const value logits = embedding(x, r.classes, r.classes, "table");
    return model_outputs{logits, cross_entropy(logits, g.input("labels", {r.batch, 3}, dtype::int32))};
  };
  const parameter_layout layout = lay_out(model, request, 1);
  const std::vector<float> weights(layout.size());
  struct arguments {
    model_request request;
    model_function model;
    std::span<const float> weights;
    std::span<const std::string> symbols;
  };
  const auto written = [&](const std::function<void(arguments&)>& change) {
    return [&, change] {
      arguments a{request, model, weights, symbols};
      change(a);
      write_text(a.model, a.request, layout, a.weights, a.symbols, {.length = 2});
    };
  };
  const auto windows_of = [&](const shape& dims) {
    return written([dims](auto& a) { a.request.sample_dims = dims; });
  };
  expect_refused({
      {"too few weights", written([](auto& a) { a.weights = a.weights.first(1); }), "write_text: 1 weights"},
      {"no model", written([](auto& a) { a.model = {}; }), "no function"},
      {"no symbols", written([](auto& a) { a.symbols = {}; }), "a symbol for each of 2 classes"},
      {"no classes", written([](auto& a) {
         a.request.classes = 0;
         a.symbols = {};
       }),
       "a symbol for each of 0 classes"},
      {"numbers", written([](auto& a) { a.request.features = feature_kind::numbers; }), "windows"},
      {"a window of nothing", windows_of({0}), "windows"},
      {"no window", windows_of({}), "windows"},
      {"windows of pictures", windows_of({3, 3}), "windows"},
      {"another window", windows_of({4}),
       "input 'features' of the model has shape 1x3, where a batch of 1 sample has 1x4"},
  });
  training_options o = options_for("async", 1);
  o.batch = 2;
  o.text.length = 3;
  const auto data = std::make_shared<data_split>(
      data_split{dataset(token_windows{{0, 1, 0, 1, 0, 1, 0, 1}, 3, 1}, {}, 2), {}, "text", {"a"}});
  expect_refused({"a run whose text could not be written", [&] { training(model, data, o); },
                  "a symbol for each of 2 classes, not 1"});
}

/// What programs bind by address is compared with what they were built for.
TEST(Refusals, OfBatchesThatAProgramWasNotBuiltFor) {
  const auto data = small_data();
  model_request request = request_for(*data, 4);
  const auto layout = std::make_shared<const parameter_layout>(lay_out(small_model(), request, 1));
  const std::vector<float> weights(layout->size());
  weight_addresses addresses(*layout);
  addresses.use(0, weights.data());
  bound_model model(small_model(), request, *layout,
                    [](graph&, const model_outputs& made) { return std::vector{made.loss}; });
  replica worker(small_model(), request, layout);
  worker.use_weights(0, weights.data());
  const auto gradient = worker.make_gradient();
  const auto computed = [&](batch b) {
    worker.begin_step(std::make_shared<const batch>(std::move(b)), gradient);
  };
  batch small;
  shape_batch(data->train, 2, 0, small);
  const auto lying = [&](std::size_t size) {
    batch b;
    shape_batch(data->train, 2, 0, b);
    b.size = size;
    return b;
  };
  expect_refused({
      {"two samples for four", [&] { model.bind(small, addresses); },
       "the batch has 2x4 for an input of shape 4x4"},
      {"nothing", [&] { model.bind(batch(), addresses); }, "the batch has 0 for an input of shape 4x4"},
      {"two samples that say four", [&] { computed(lying(4)); }, "the batch has 2x4"},
      {"nothing to compute on", [&] { computed(batch()); }, "no batch"},
      {"no batch at all", [&] { worker.begin_step(nullptr, gradient); }, "no batch"},
      {"no gradient", [&] { worker.begin_step(std::make_shared<const batch>(lying(2)), nullptr); },
       "no gradient to compute into"},
      {"no shard", [&] { addresses.use(1, weights.data()); }, "shard 1 of 1"},
      {"no weights", [&] { addresses.use(0, nullptr); }, "no values"},
      {"no model", [&] { lay_out({}, request, 1); }, "no function"},
      {"no shards", [&] { lay_out(small_model(), request, 0); }, "0 shards"},
  });
}

TEST(Refusals, OfGradientsThatDoNotFitTheShard) {
  const parameter_layout layout = testing::layout_of({{"w", {64}}, {"table", {9, 4}, true}}, 2);
  const auto short_of = [](std::size_t floats) {
    auto g = std::make_shared<gradient>();
    g->dense = memory(block(floats * sizeof(float)));
    return g;
  };
  const auto sum_short = std::make_shared<gradient>();
  sum_short->dense = memory(block(layout.dense_size() * sizeof(float)));
  sum_short->addends.emplace_back();
  const std::vector<std::int32_t> rows{0, 8};
  const std::vector<float> values(4);
  const auto rows_short = std::make_shared<gradient>();
  rows_short->dense = memory(block(layout.dense_size() * sizeof(float)));
  rows_short->sparse.push_back({1, 4, rows, values});
  for (std::uint32_t index = 0; index < 2; ++index) {
    shard s(layout, index, 1, testing::sgd(1));
    const auto update = [&](std::shared_ptr<const gradient> g, float scale = 1) {
      return [&s, c = contribution{std::move(g), scale}] { s.update({&c, 1}); };
    };
    if (s.dense_size() > 0)
      expect_refused({
          {"nothing", update(short_of(0)), "a gradient of 0 dense weights"},
          {"short", update(short_of(layout.shard(index).begin + s.dense_size() - 1)), "dense weights, where"},
          {"short where it is read", [&] { static_cast<void>(s.part_of(*short_of(1))); }, "a gradient of 1"},
          {"a sum without an addend", update(sum_short), "a gradient of 0 dense weights"},
      });
    expect_refused({"null", update(nullptr), "no gradient"});
    if (layout.shard(index).end > layout.dense_size())
      expect_refused({{"rows without values", update(rows_short), "4 values for 2 rows of 4"},
                      {"scaled rows without values", update(rows_short, 0.5F), "4 values for 2 rows of 4"}});
    EXPECT_EQ(s.version().value, 0U);
  }
  expect_refused({"a sum that is too short", [&] { whole_dense(*sum_short); }, "an addend of 0 weights"});
  expect_refused({"no shard", [&] { shard(layout, 2, 1, testing::sgd(1)); }, "shard 2 of 2"});
}

/// The checksum of what somebody made on purpose is right.
TEST(Refusals, OfRecordingsThatAreNestedTooDeep) {
  std::ostringstream out;
  recording_writer(std::make_unique<std::ostream>(out.rdbuf()), "memory", {1, 1, {}, {}}).end({});
  const std::string whole = out.str();
  const std::string last_word = whole.substr(whole.size() - 8);
  const std::string text = std::string(100'000, '[') + std::string(100'000, ']');
  std::string bytes = whole.substr(0, whole.find('{') - 4);
  append_number<4>(bytes, text.size());
  bytes += text;
  append_number<4>(bytes, crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  bytes += last_word;
  expect_refused({"a header", [&] { parse_recording(bytes, "x.rec"); }, "nested too deep"});
}

} // namespace
} // namespace mailgrad
