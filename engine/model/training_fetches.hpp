#pragma once

#include <mailgrad/data/batch.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/graph/placement.hpp>

#include <cstddef>
#include <optional>
#include <vector>

namespace mailgrad {

/// A gradient that a program writes where it lies in the block of the whole model.
struct dense_fetch {
  std::size_t index;    ///< among the fetches
  std::size_t variable; ///< index in parameter_layout::variables()
  std::size_t offset;   ///< in floats, from the start of the block
  std::size_t size;     ///< in floats
  bool further = false; ///< another device computes the first addend of this variable's gradient
};

/// Rows of the gradient of a table. Their numbers come from the batch itself where the model reads them from
/// an input, else from a fetch.
struct sparse_fetch {
  std::size_t variable; ///< index in parameter_layout::variables()
  std::size_t width;
  std::size_t count;  ///< rows of the list
  std::size_t values; ///< index among the fetches
  std::optional<std::size_t> rows;
  const tensor batch::*rows_in_batch = nullptr;
};

/// Loss and gradients as fetches of one program, and what each of them is.
struct training_fetches {
  static constexpr std::size_t loss = 0; ///< index among the fetches

  std::vector<value> fetches;
  std::vector<dense_fetch> dense;
  std::vector<sparse_fetch> sparse;

  std::vector<std::size_t> dense_variables() const {
    std::vector<std::size_t> all;
    for (const dense_fetch& f : dense) all.push_back(f.variable);
    return all;
  }
};

/// Fetches the addends of gradients that several devices add up, each where it is computed, in place of the
/// sums.
void take_sums_apart(training_fetches& list, const graph& g, const placement& places);

/// Adds the backward pass to the graph of a model.
///
/// Errors  graph_error if the model has a variable that the layout lacks.
training_fetches loss_and_gradients(graph& g, const model_outputs& outputs, const parameter_layout& layout);

} // namespace mailgrad
