#pragma once

#include <mailgrad/graph/parameter_layout.hpp>

namespace mailgrad {

/// The variables of all graphs that the workers build. Variables of the same name are the same weights, so
/// each name occurs once.
///
/// Variables have the order in which add() first meets them, and the first values that they have there. If
/// all graphs are the same, the layout is that of any of them.
class variable_union {
public:
  /// Adds the variables of the graph that `worker` built, in their order. `adjoints` are their gradients. If
  /// one is empty, this graph does not train the variable, and another graph decides whether its gradient is
  /// a list of rows.
  ///
  /// Errors  graph_error for a variable that has another type or shape in an earlier graph, or whose gradient
  ///         is a list of rows in one graph and dense in the other. It names both, with their lines and
  ///         workers. Nothing has changed then.
  void add(const graph& model, std::span<const adjoint> adjoints, std::uint32_t worker);

  /// Errors  as the constructor of parameter_layout.
  parameter_layout lay_out(std::size_t shards, shard_cuts where = shard_cuts::within_variables) const;

private:
  enum class gradient_form : std::uint8_t { none, whole, rows };

  /// A variable and the graph in which it first occurred.
  struct entry {
    std::string name;
    value_type type;
    initialiser first_values;
    gradient_form form = gradient_form::none;
    std::uint32_t worker = 0;   ///< the first worker whose graph has the variable
    std::source_location where; ///< the line in that graph
    std::uint32_t trainer = 0;  ///< the first worker whose graph trains it, if `form` is not `none`
    std::source_location trained_where;
  };

  static entry entry_of(const node& variable, const adjoint& gradient, std::uint32_t worker);
  static void require_alike(const entry& known, const entry& found);
  entry* find(const std::string& name);

  std::vector<entry> entries_;
};

} // namespace mailgrad
