#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/placement.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

struct drawing_options {
  std::optional<value> loss;         ///< what was added to the graph after it is drawn as the backward pass
  const placement* places = nullptr; ///< then each device has a box of its own
  std::vector<value> wanted{};       ///< if any: nothing is drawn that none of these depends on
};

/// A picture of a graph in the language of Graphviz: `dot -Tsvg` draws it.
///
/// Inputs, variables and operations with their shapes. Variables of one layer ("dense1/weights") and the
/// operations that read them stand in one box; the backward pass is dashed. An edge is labelled where it does
/// not start at a node's first output. A node's tooltip is the line of the program that made it.
///
/// Of a placed graph the operations of a device stand in its box, whose title says how much it gets from
/// others; what goes from one device to another is a thick edge, the first of each value with its bytes a
/// step. Inputs and variables that several devices read stand outside.
std::string graphviz(const graph& g, const drawing_options& options = {});

} // namespace mailgrad
