#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/operation.hpp>
#include <mailgrad/graph/parameter_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <vector>

namespace mailgrad {

/// The variables of the graphs that workers build each for themselves, one of each name: variables of the
/// same name are the same weights.
///
/// They stand in the order in which they are first met, and begin with the first values that stand there. If
/// all graphs are alike this is the layout of any of them.
class variable_union {
public:
  /// Adds the variables of the graph that `worker` built, in their order. `adjoints` are their gradients:
  /// where one is empty this graph does not train the variable, and another says whether its gradient comes
  /// in rows.
  ///
  /// Errors  graph_error for a variable that a graph before has with another type or shape, or whose gradient
  ///         comes in rows in the one and whole in the other: names both, with their lines and workers.
  ///         Nothing has changed then.
  void add(const graph& model, std::span<const adjoint> adjoints, std::uint32_t worker);

  /// Errors  as the constructor of parameter_layout.
  parameter_layout lay_out(std::size_t shards) const;

private:
  enum class gradient_form : std::uint8_t { none, whole, rows };

  /// A variable and where it was first met.
  struct entry {
    std::string name;
    value_type type;
    initialiser first_values;
    gradient_form form = gradient_form::none;
    std::uint32_t worker = 0;   ///< whose graph has it
    std::source_location where; ///< there
    std::uint32_t trainer = 0;  ///< the first whose graph has a gradient of it, if `form` is not none
    std::source_location trained_where;
  };

  static entry entry_of(const node& variable, const adjoint& gradient, std::uint32_t worker);
  static void require_alike(const entry& known, const entry& found);
  const entry* find(const std::string& name) const;

  std::vector<entry> entries_;
};

} // namespace mailgrad
