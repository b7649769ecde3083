#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/engine/layouts.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/engine/worker/replica.hpp>
#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/operations.hpp>

#include <zlib.h>

#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

// Wrong shapes, lengths and nulls, wherever a program hands batches, gradients, texts or recordings to a part
// of a run.

namespace mailgrad {
namespace {

using testing::expect_refused;
using testing::options_for;
using testing::small_data;
using testing::small_model;

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
  const auto written = [&](auto change) {
    return [&, change] {
      model_request r = request;
      model_function m = model;
      std::span<const float> w = weights;
      std::span<const std::string> s = symbols;
      change(r, m, w, s);
      write_text(m, r, layout, w, s, {.length = 2});
    };
  };
  expect_refused({
      {"too few weights", written([](auto&, auto&, auto& w, auto&) { w = w.first(1); }),
       "write_text: 1 weights"},
      {"no model", written([](auto&, auto& m, auto&, auto&) { m = {}; }), "no function"},
      {"no symbols", written([](auto&, auto&, auto&, auto& s) { s = {}; }), "a symbol for each of 2 classes"},
      {"no classes", written([](auto& r, auto&, auto&, auto& s) {
         r.classes = 0;
         s = {};
       }),
       "a symbol for each of 0 classes"},
      {"numbers", written([](auto& r, auto&, auto&, auto&) { r.features = feature_kind::numbers; }),
       "windows"},
      {"a window of nothing", written([](auto& r, auto&, auto&, auto&) { r.sample_dims = {0}; }), "windows"},
      {"no window", written([](auto& r, auto&, auto&, auto&) { r.sample_dims = {}; }), "windows"},
      {"windows of pictures", written([](auto& r, auto&, auto&, auto&) {
         r.sample_dims = {3, 3};
       }),
       "windows"},
      {"another window", written([](auto& r, auto&, auto&, auto&) { r.sample_dims = {4}; }),
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
