#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/placement/replicate.hpp>

#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad {

/// Reads a file that `mailgrad graph --out` or a program by write_graph() has written. Nothing in it is
/// executed. Returns what the graph names.
///
/// Errors  file_error in one line: the file cannot be read, is cut, damaged or no graph, or has an operation
///         that this build does not know.
named_values read_graph_file(graph& into, const std::string& path);

/// Writes a graph as bytes, with the values that a reader gets by name.
///
/// Errors  as write_graph().
void write_graph_to(std::ostream& out, const graph& g, const std::vector<named_value>& named);

/// The value of that name; none if there is none.
std::optional<value> find_value(const named_values& named, std::string_view name);

} // namespace mailgrad
