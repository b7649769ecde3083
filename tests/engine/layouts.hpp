#pragma once

#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/optimizer_options.hpp>

#include <initializer_list>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

// Layouts and gradients without a model, for tests of code that only moves and adds numbers.

namespace mailgrad::testing {

struct named_shape {
  std::string name;
  shape dims;
  bool sparse = false;
};

/// Variables with uniform first values in [-1, 1), cut into shards.
inline parameter_layout layout_of(std::initializer_list<named_shape> variables, std::size_t shards) {
  graph g;
  std::vector<bool> sparse;
  for (const named_shape& v : variables) {
    g.variable(v.name, v.dims, initialiser::uniform(-1, 1));
    sparse.push_back(v.sparse);
  }
  return {g, sparse, shards};
}

/// The first values of all shards, one after the other.
inline std::vector<float> first_values(const parameter_layout& layout, std::uint64_t seed) {
  std::vector<float> all(layout.size());
  for (std::size_t s = 0; s < layout.shard_count(); ++s) {
    const shard_range r = layout.shard(s);
    layout.initialise_shard(s, seed, std::span(all).subspan(r.begin, r.size()));
  }
  return all;
}

/// A gradient with the given dense values and no sparse ones.
inline std::shared_ptr<gradient> dense_gradient(std::span<const float> values) {
  auto g = std::make_shared<gradient>();
  g->dense = memory(block(values.size_bytes()));
  std::ranges::copy(values, g->dense.on_host<float>().begin());
  return g;
}

inline std::shared_ptr<gradient> constant_gradient(const parameter_layout& layout, float value) {
  return dense_gradient(std::vector<float>(layout.dense_size(), value));
}

/// Adds rows of a table to `g`, which copies them.
inline void add_rows(gradient& g, std::size_t variable, std::size_t width,
                     const std::vector<std::int32_t>& rows, const std::vector<float>& values) {
  block& row_memory = g.sparse_memory.emplace_back(rows.size() * sizeof(std::int32_t));
  std::ranges::copy(rows, row_memory.as<std::int32_t>().begin());
  const std::span<const std::int32_t> kept_rows = row_memory.as<std::int32_t>();
  block& value_memory = g.sparse_memory.emplace_back(values.size() * sizeof(float));
  std::ranges::copy(values, value_memory.as<float>().begin());
  g.sparse.push_back({variable, width, kept_rows, value_memory.as<float>()});
}

/// An update of this gradient alone.
inline void update_once(shard& s, std::shared_ptr<const gradient> g, float scale = 1) {
  const contribution one{std::move(g), scale};
  s.update({&one, 1});
}

/// Plain SGD, which moves a weight by exactly the learning rate times its gradient.
inline optimizer_options sgd(double learning_rate) {
  optimizer_options o;
  o.learning_rate = learning_rate;
  return o;
}

/// Numbers in [-1, 1) that are the same in every run.
inline std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-53 * 2 - 1);
  return values;
}

} // namespace mailgrad::testing
