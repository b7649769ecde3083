#include <mailgrad/tests/support/refusal.hpp>

#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/models/spanning_models.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/graph/variable_union.hpp>

#include <span>
#include <vector>

// Layouts that do not fit, and models that do not answer.

namespace mailgrad {
namespace {

using testing::expect_refused;

constexpr const char* models_file = "model_refusals_test.cpp:";

TEST(Refusals, OfLayoutsThatDoNotFit) {
  graph g;
  g.variable("w", {4, 4}, {});
  const parameter_layout layout(g, {false}, 1);
  std::vector<float> room(layout.size());
  const std::vector<placed_variable> scalar_table{{"s", {}, {}, 0, true}};
  variable_union all;
  expect_refused({
      {"no shards", [&] { parameter_layout(g, {false}, 0); }, "0 shards"},
      {"too many shards", [&] { parameter_layout(g, {false}, 99); }, "99 shards"},
      {"no words on gradients", [&] { parameter_layout(g, {}, 1); }, "0 words"},
      {"no variables", [&] { parameter_layout(std::vector<placed_variable>{}, 1); }, "no variables"},
      {"a scalar in rows", [&] { parameter_layout(scalar_table, 1); }, "is a scalar"},
      {"initialise no shard", [&] { layout.initialise_shard(1, 0, room); }, "shard 1 of 1"},
      {"initialise in too little room", [&] { layout.initialise_shard(0, 0, std::span(room).first(3)); },
       "room for 3"},
      {"no such shard", [&] { static_cast<void>(layout.shard(1)); }, "shard 1 of 1"},
      {"no such variable", [&] { static_cast<void>(layout.pieces(1)); }, "variable 1 of 1"},
      {"union without gradients", [&] { all.add(g, {}, 0); }, "0 gradients"},
  });
}

model_request small_request() {
  model_request r;
  r.sample_dims = {4};
  r.batch = 2;
  r.classes = 3;
  return r;
}

/// Logits of `width` and their loss.
model_outputs answers(graph& g, const model_request& r, std::size_t width) {
  const value y = dense(g.input("features", {r.batch, 4}), width, "d");
  return {y, cross_entropy(y, g.input("labels", {r.batch}, dtype::int32))};
}

TEST(Refusals, OfModelsThatDoNotAnswer) {
  const auto built = [](const model_function& model) {
    graph g;
    build_model(model, g, small_request());
  };
  const model_function no_loss = [](graph& g, const model_request& r) {
    return model_outputs{answers(g, r, 3).logits, {}};
  };
  const model_function no_logits = [](graph& g, const model_request& r) {
    return model_outputs{{}, answers(g, r, 3).loss};
  };
  const model_function five = [](graph& g, const model_request& r) { return answers(g, r, 5); };
  const model_function not_scalar = [](graph& g, const model_request& r) {
    const value y = answers(g, r, 3).logits;
    return model_outputs{y, y};
  };
  const model_function integer_loss = [](graph& g, const model_request& r) {
    return model_outputs{answers(g, r, 3).logits, reshape(g.input("one", {1}, dtype::int32), {})};
  };
  graph other;
  const value elsewhere = other.constant(1.0F);
  const model_function foreign_loss = [&](graph& g, const model_request& r) {
    return model_outputs{answers(g, r, 3).logits, elsewhere};
  };
  expect_refused({
      {"no function", [&] { built({}); }, "no function"},
      {"no loss", [&] { built(no_loss); }, "no loss"},
      {"no logits", [&] { built(no_logits); }, "no logits"},
      {"five logits", [&] { built(five); },
       "3 classes in a batch of 2 need logits of float32 2x3, not float32 2x5"},
      {"five logits", [&] { built(five); }, models_file},
      {"a loss that is no scalar", [&] { built(not_scalar); }, models_file},
      {"a loss of integers", [&] { built(integer_loss); }, models_file},
      {"a loss of another graph", [&] { built(foreign_loss); }, "no loss of its graph"},
      {"replicated nothing", [&] { built(replicated({})); }, "no function"},
      {"pipelined nothing", [&] { built(pipelined({})); }, "no function"},
  });
  for (const auto& span : {replicated, pipelined}) {
    graph g;
    model_request r = small_request();
    expect_refused({"spanning no loss", [&] { span(no_loss)(g, r); }, "no loss"});
    r.devices.clear();
    expect_refused({"spanning no devices", [&] { span(five)(g, r); }, "no device"});
  }
}

} // namespace
} // namespace mailgrad
