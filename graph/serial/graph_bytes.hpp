#pragma once

#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/placement/replicate.hpp>

namespace mailgrad {

/// What the bytes of a graph may ask of the one that reads them. A graph that wants more is refused before
/// memory is taken for it.
struct graph_limits {
  std::size_t nodes = std::size_t{1} << 16;
  std::size_t entries = std::size_t{1} << 16;         ///< operands of a node, its results, and named outputs
  std::size_t text_bytes = std::size_t{1} << 12;      ///< of a name, a scope or a line
  std::size_t attribute_bytes = std::size_t{1} << 20; ///< of one operation
  std::uint64_t constant_bytes = std::uint64_t{1} << 30; ///< of all constants together
  std::uint64_t value_bytes = std::uint64_t{1}
                              << 36; ///< of one value, by its shape; reading takes no such memory
};

/// Tells on which device operations run that the graph has placed on another one.
using device_map = std::function<device(device)>;

/// Writes a graph: its nodes in their order, with names, shapes, first values, constants, attributes, seeds,
/// scopes, places and source lines. Gradients that were added to it are nodes like any other. `outputs` are
/// the values that a reader gets by name.
///
/// Equal graphs have equal bytes. docs/graph_format.md describes them.
/// Errors  graph_error, which names the operation and its line, for an operation without a serial_form;
///         for an output of another graph.
std::vector<std::byte> write_graph(const graph& g, std::span<const named_value> outputs);

/// Adds the graph that the bytes describe to `into`, which is usually empty, and returns its outputs.
/// Shapes  are inferred again and must be those that were written. As for a model function, the input source
///         and the name, device and sharing scopes of `into` hold.
///
/// The bytes may come from anybody. Nothing in them is executed: they can only name operations that `known`
/// has.
/// Errors  archive_error if the bytes are damaged or are none of this format; graph_error if they describe
///         what is no graph, wants more than `limits` or an operation that `known` lacks. Both are one line
///         that says where. `into` may then have some of the nodes, and is of no further use.
named_values read_graph(graph& into, std::span<const std::byte> bytes, const operation_registry& known,
                        const graph_limits& limits = {}, const device_map& devices = {});

} // namespace mailgrad
