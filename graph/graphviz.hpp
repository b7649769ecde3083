#pragma once

#include <mailgrad/graph/placement/placement.hpp>

namespace mailgrad {

struct drawing_options {
  std::optional<value> loss;         ///< nodes added after the loss are drawn as the backward pass
  const placement* places = nullptr; ///< if given, each device has a box of its own
  std::vector<value> wanted{};       ///< if not empty, only nodes that these depend on are drawn
};

/// Describes a graph in the language of Graphviz: `dot -Tsvg` draws it.
///
/// The picture shows inputs, variables and operations with their shapes. Variables of one layer
/// ("dense1/weights"), the operations that read them, and those added in its name_scope stand in one box; the
/// backward pass is dashed. An edge is labelled where it does not start at a node's first output. A node's
/// tooltip is the line of the program that made it.
///
/// The forward pass goes downwards. The backward pass stands beside it and goes upwards, so that a gradient
/// is near the operation that it belongs to.
///
/// In a placed graph each device has a box with its operations, whose title says how many bytes a step it
/// gets from others. A value that goes from one device to another is a thick edge, and its first edge tells
/// its bytes a step. Inputs and variables that several devices read stand outside of the boxes.
std::string graphviz(const graph& g, const drawing_options& options = {});

} // namespace mailgrad
