#pragma once

#include <mailgrad/tests/support/test_name.hpp>

#include <mailgrad/data/batch.hpp>
#include <mailgrad/data/dataset.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/models/layer_stack.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/operations.hpp>

#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

// Models and data so small that a test can train them a thousand times.

namespace mailgrad::testing {

/// Two dense layers, 67 weights for four features and three classes.
inline model_function small_model() {
  return [](graph& g, const model_request& request) {
    return build_classifier(g, {dense_layer{8, activation::tanh}, dense_layer{}}, request);
  };
}

/// The next token is looked up from this one.
inline model_outputs next_from_table(graph& g, const model_request& r) {
  const value x = g.input("features", {r.batch, r.sample_dims[0]}, dtype::int32);
  const value labels = g.input("labels", {r.batch, r.sample_dims[0]}, dtype::int32);
  const value logits = embedding(x, r.classes, r.classes, "table");
  return {logits, cross_entropy(logits, labels)};
}

inline constexpr std::size_t small_features = 4;
inline constexpr std::size_t small_classes = 3;

/// Samples with noise around one corner for each class. They are the same in every run.
inline dataset small_samples(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto noise = [&] { return static_cast<float>(random() >> 11) * 0x1p-53F - 0.5F; };
  std::vector<float> features;
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::int32_t>(random() % small_classes);
    labels.push_back(label);
    for (std::size_t f = 0; f < small_features; ++f)
      features.push_back((static_cast<std::int32_t>(f) == label ? 1.0F : 0.0F) + noise());
  }
  return {float_features{{small_features}, std::move(features)}, std::move(labels), small_classes};
}

inline std::shared_ptr<const data_split> small_data(std::size_t samples = 48) {
  return std::make_shared<data_split>(
      data_split{small_samples(samples, 1), small_samples(24, 2), "small", {}});
}

/// Sparse samples with three entries among ten columns.
inline dataset sparse_samples(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  sparse_features features{10, {0}, {}, {}};
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < count; ++i) {
    const auto first = static_cast<std::int32_t>(random() % 5);
    for (std::int32_t column = first; column < first + 3; ++column) {
      features.columns.push_back(column);
      features.values.push_back(1.0F + static_cast<float>(i % 3));
    }
    features.offsets.push_back(features.columns.size());
    labels.push_back(first % static_cast<std::int32_t>(small_classes));
  }
  return {std::move(features), std::move(labels), small_classes};
}

inline std::shared_ptr<const data_split> sparse_data(std::size_t samples = 48) {
  return std::make_shared<data_split>(
      data_split{sparse_samples(samples, 1), sparse_samples(24, 2), "small sparse", {}});
}

/// Samples `first` to `first + count` of a set of whose rows a batch has at most `most`.
inline std::shared_ptr<batch> batch_of(const dataset& d, std::uint32_t first, std::size_t count,
                                       std::uint64_t number = 0, std::size_t most = 8) {
  auto b = std::make_shared<batch>();
  shape_batch(d, count, d.is_sparse() ? max_nonzeros(d, most) : 0, *b);
  std::vector<std::uint32_t> which(count);
  std::iota(which.begin(), which.end(), first);
  fill_batch(d, which, *b);
  b->number = number;
  return b;
}

} // namespace mailgrad::testing
