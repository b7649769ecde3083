#pragma once

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/models/model.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/graph/placement/placement.hpp>

#include <cstddef>
#include <optional>
#include <vector>

namespace mailgrad {

/// A gradient that a program writes in place into the block of the whole model.
struct dense_fetch {
  std::size_t index;    ///< among the fetches
  std::size_t variable; ///< index in parameter_layout::variables()
  std::size_t offset;   ///< in floats, from the start of the block
  std::size_t size;     ///< in floats
  bool further = false; ///< another device computes the first addend of this variable's gradient
};

/// Rows of the gradient of a table. The row numbers come from the batch itself if the model reads them from
/// an input, otherwise from a fetch.
struct sparse_fetch {
  std::size_t variable; ///< index in parameter_layout::variables()
  std::size_t width;
  std::size_t count;  ///< rows of the list
  std::size_t values; ///< index among the fetches
  std::optional<std::size_t> rows;
  std::optional<batch_part> rows_in_batch{};
};

/// Loss and gradients as fetches of one program, and the meaning of each fetch.
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

/// Where a gradient is a sum over several devices, replaces its fetch by fetches of the addends, each on the
/// device that computes it.
void take_sums_apart(training_fetches& list, const graph& g, const placement& places);

/// Adds the backward pass to the graph of a model.
///
/// Errors  graph_error if the model has a variable that the layout lacks.
training_fetches loss_and_gradients(graph& g, const model_outputs& outputs, const parameter_layout& layout,
                                    const model_request& request);

} // namespace mailgrad
