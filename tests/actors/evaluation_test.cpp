#include <mailgrad/actors/evaluation.hpp>

#include <mailgrad/actors/replica.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/operations/cross_entropy.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace mailgrad {
namespace {

/// Logits that are the two features themselves.
model_outputs features_as_logits(graph& g, const model_request& r) {
  const value x = g.input("features", {r.batch, 2});
  const value labels = g.input("labels", {r.batch}, dtype::int32);
  const value logits = dense(x, 2, "identity");
  return {logits, cross_entropy(logits, labels)};
}

/// The next token is looked up from this one.
model_outputs next_from_table(graph& g, const model_request& r) {
  const value x = g.input("features", {r.batch, r.sample_dims[0]}, dtype::int32);
  const value labels = g.input("labels", {r.batch, r.sample_dims[0]}, dtype::int32);
  const value logits = embedding(x, r.classes, r.classes, "table");
  return {logits, cross_entropy(logits, labels)};
}

std::vector<float> values_where(const parameter_layout& layout, const std::string& variable,
                                const std::vector<float>& values) {
  std::vector<float> all(layout.size());
  const auto found = std::ranges::find(layout.variables(), variable, &placed_variable::name);
  std::ranges::copy(values, all.begin() + static_cast<std::ptrdiff_t>(found->offset));
  return all;
}

model_request request_for(const dataset& samples) {
  model_request r;
  r.sample_dims = samples.sample_dims();
  r.features = samples.is_tokens() ? feature_kind::tokens : feature_kind::numbers;
  r.classes = samples.classes();
  return r;
}

// 300 samples are a whole batch and a short one.
TEST(Evaluation, CountsEverySampleOnce) {
  constexpr std::size_t n = 300;
  std::vector<float> features;
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < n; ++i) {
    features.insert(features.end(), {1, 0});
    labels.push_back(i % 3 == 0 ? 0 : 1);
  }
  const dataset samples(float_features{{2}, features}, labels, 2);
  const parameter_layout layout = lay_out(features_as_logits, request_for(samples), 1);
  const evaluation e = evaluate(features_as_logits, request_for(samples), layout,
                                values_where(layout, "identity/weights", {1, 0, 0, 1}), samples);
  EXPECT_DOUBLE_EQ(e.accuracy, 1.0 / 3);
  const double right = std::log(1 + std::exp(-1.0));
  EXPECT_NEAR(e.loss, (right + 2 * (right + 1)) / 3, 1e-6);
}

TEST(Evaluation, CountsEachTokenOfAWindow) {
  token_windows text{{0, 1, 2, 0, 1, 2, 0, 1, 2, 1}, 3, 3}; // 0 1 2 0 1 2 0 1 2, then a surprise
  const dataset samples(text, {}, 3);
  ASSERT_EQ(samples.size(), 3U);
  const parameter_layout layout = lay_out(next_from_table, request_for(samples), 1);
  const evaluation e = evaluate(next_from_table, request_for(samples), layout,
                                values_where(layout, "table/table", {0, 5, 0, 0, 0, 5, 5, 0, 0}), samples);
  EXPECT_DOUBLE_EQ(e.accuracy, 8.0 / 9);
}

} // namespace
} // namespace mailgrad
