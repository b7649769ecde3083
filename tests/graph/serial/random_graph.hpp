#pragma once

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operations.hpp>
#include <mailgrad/graph/placement/placement.hpp>
#include <mailgrad/graph/placement/replicate.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace mailgrad::test {

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
