#pragma once

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/quadratic.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/graph/placement/replicate.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad::test {

/// A graph with every built-in operation and, after differentiate(), those of every gradient. It needs no
/// inputs, so that it can be run as it is.
class every_operation {
public:
  every_operation() {
    on_elements();
    on_matrices();
    on_images();
    on_tables();
    on_parts();
    loss = reduce_mean(reduce_sum(loss, {}, summed_axes::kept_as_one));
  }

  /// Adds the gradients with respect to all variables, which become outputs.
  void differentiate() {
    const std::vector<value> variables = g.variables();
    const std::vector<adjoint> adjoints = gradients(loss, variables);
    for (std::size_t i = 0; i < variables.size(); ++i) {
      const std::string of = "gradient of " + g.of(variables[i]).name;
      if (adjoints[i].dense) outputs.push_back({of, *adjoints[i].dense});
      for (const sparse_rows& part : adjoints[i].sparse) {
        outputs.push_back({of + ", rows", part.rows});
        outputs.push_back({of + ", values", part.values});
      }
    }
  }

  std::vector<named_value> named() const {
    std::vector<named_value> all{{"loss", loss}};
    all.insert(all.end(), outputs.begin(), outputs.end());
    return all;
  }

  graph g;
  value loss = g.constant(0.5F);
  std::vector<named_value> outputs;

private:
  void add(const value& x) { loss = loss + reduce_sum(x); }

  value variable(const char* name, const shape& dims) {
    return g.variable(name, dims, initialiser::uniform(0.5F, 1.5F));
  }

  value integers(const shape& dims, const std::vector<std::int32_t>& values) {
    tensor t(dims, dtype::int32);
    std::copy(values.begin(), values.end(), t.values<std::int32_t>().begin());
    return g.constant(std::move(t));
  }

  void on_elements() {
    const value x = variable("elements/x", {2, 3}), b = variable("elements/b", {3});
    add(relu(x) + gelu(x) * tanh(x) - sigmoid(x) / exp(x));
    add(log(x) + square(x) + sqrt(x));
    add(-x * 2.0F);
    add(add_bias(x, b));
    add(bias_relu(x, b));
    add(bias_gelu(x, b));
    add(softmax(x));
    add(layer_norm(x, b, variable("elements/beta", {3}), 0.25F));
    add(dropout(x, 0.25F, 7));
    add(mean_squared_error(x, square(x)));
    add(broadcast_to(b, {2, 3}));
    add(sum_to(x, {1, 3}));
    add(reduce_mean(x, {1}, summed_axes::kept_as_one));
    add(quadratic(b, reduce_sum(x, {1}), 2, 1, {.condition = 2, .noise = 0.5}).loss);
  }

  void on_matrices() {
    const value a = variable("matrices/a", {2, 4, 6}), w = variable("matrices/w", {6, 12});
    const value product = matmul(a, w);
    add(causal_attention(product, 2));
    add(matmul(a, a, {operand_order::as_is, operand_order::transposed}));
    add(transpose(a, {2, 0, 1}));
    add(cross_entropy(product, integers({2, 4}, {0, 1, 2, 3, 4, 5, 6, 11})));
    add(pairwise_dots(a));
  }

  void on_images() {
    const value x = variable("images/x", {1, 5, 5, 2}), w = variable("images/w", {3, 3, 2, 3});
    const value y = conv2d(x, w, {{2, 2}, padding::of(1, 1)});
    add(max_pool(y, {{2, 2}, {1, 1}, padding::same()}));
    add(average_pool(y));
  }

  void on_tables() {
    const value table = variable("tables/t", {4, 3}), other = variable("tables/u", {5, 3});
    add(gather(table, integers({2, 2}, {3, 0, 0, 1})) * 2.0F);
    add(gather_tables(std::array{table, other}, integers({2, 2}, {1, 2, 3, 4})));
    tensor values({3}), rows({2, 3});
    for (tensor* t : {&values, &rows}) std::ranges::fill(t->values(), 0.5F);
    add(scatter_rows(integers({2}, {1, 0}), g.constant(std::move(rows)), {4, 3}) * table);
    add(sparse_matmul(integers({3}, {0, 2, 1}), g.constant(std::move(values)), integers({3}, {0, 1, 3}),
                      variable("tables/s", {4, 3})));
  }

  void on_parts() {
    const value x = variable("parts/x", {4, 1, 3});
    add(slice(x, 0, 1, 3));
    add(square(squeeze(x, 1)));
    const std::vector<value> two = split(reshape(x, {4, 3}), 1, {1, 2});
    add(two[0]);
    add(square(two[1]));
    add(concat(std::array{x, square(x)}, 1));
  }
};

/// A graph of operations on matrices that a seed draws, with scopes, places, shared variables and, in every
/// second graph, gradients. It needs no inputs.
class random_graph {
public:
  explicit random_graph(std::uint64_t seed) : draw_(seed) {
    values_.push_back(variable());
    for (std::uint64_t steps = 3 + below(20); steps > 0; --steps) {
      const std::string scope = "scope" + std::to_string(below(3));
      std::optional<name_scope> named;
      if (below(2) == 0) named.emplace(g, scope);
      std::optional<place_scope> placed;
      if (below(3) == 0) placed.emplace(g, device{device_kind::cpu, static_cast<std::uint32_t>(below(3))});
      values_.push_back(step());
    }
    const value loss = reduce_mean(square(values_.back()));
    outputs_.push_back({"loss", loss});
    if (below(2) == 0)
      for (const adjoint& a : gradients(loss, g.variables()))
        if (a.dense) outputs_.push_back({"gradient " + std::to_string(outputs_.size()), *a.dense});
  }

  const std::vector<named_value>& named() const { return outputs_; }

  graph g;

private:
  std::uint64_t below(std::uint64_t n) { return draw_() % n; }
  std::size_t extent() { return 1 + below(4); }

  value variable() {
    const shape dims{extent(), extent()};
    const std::string name = "v" + to_string(dims) + "_" + std::to_string(below(2));
    const float a = static_cast<float>(below(100)) / 64;
    const std::array<initialiser, 3> kinds{initialiser::constant(a), initialiser::uniform(-a, 1),
                                           initialiser::normal(0, a)};
    return g.variable(name, dims, kinds[below(3)]);
  }

  const value& any() { return values_[below(values_.size())]; }

  value step() {
    const value x = any();
    if (x.dims().size() > 40)
      return reduce_sum(x, {below(2)}, summed_axes::kept_as_one); // products grow fast
    switch (below(12)) {
    case 0:
      return matmul(x, x, {operand_order::as_is, operand_order::transposed});
    case 1:
      return sigmoid(x);
    case 2:
      return tanh(x) + 0.25F;
    case 3:
      return softmax(x);
    case 4:
      return transpose(x);
    case 5:
      return dropout(x, 0.5F, below(1000));
    case 6:
      return reduce_sum(x, {below(2)}, summed_axes::kept_as_one);
    case 7:
      return concat(std::array{x, x * 0.5F}, below(2));
    case 8:
      return slice(x, 1, 0, x.dims()[1]);
    case 9:
      return reshape(x, {1, x.dims().size()});
    case 10:
      return sum_to(broadcast_to(reduce_mean(x), x.dims()), {1, 1}) * x;
    default:
      return variable();
    }
  }

  std::mt19937_64 draw_;
  std::vector<value> values_;
  std::vector<named_value> outputs_;
};

} // namespace mailgrad::test
