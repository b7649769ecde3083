#pragma once

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/operations/quadratic.hpp>
#include <mailgrad/graph/placement/replicate.hpp>

#include <algorithm>
#include <array>
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

} // namespace mailgrad::test
