#pragma once

#include <mailgrad/graph/graph.hpp>

#include <optional>
#include <source_location>
#include <string_view>

namespace mailgrad {

/// During the lifetime of a scope, the names of variables that its graph is asked for begin with "<name>/",
/// those of layers too. Names of inputs do not change, because a batch feeds inputs by name.
///
/// Scopes nest: "tower/layer/weights". Opening a scope of the same name again gives the same names. So a
/// function that is called in it twice shares its variables if `share` allows it. Without `share`, the rule
/// of the enclosing scope holds.
///
/// Source  variable_scope of TensorFlow 1, with reuse=tf.AUTO_REUSE, True and False as sharing::allowed,
///         required and refused. Differs: allowed is the default.
/// Errors  graph_error for a name that is empty, or begins or ends with '/'; from graph::variable() for one
///         that may not be shared or made.
/// Threads as its graph. Scopes end in the reverse order of their beginnings.
class name_scope {
public:
  name_scope(graph& g, std::string_view name, std::optional<sharing> share = {},
             std::source_location where = std::source_location::current());
  ~name_scope();
  name_scope(const name_scope&) = delete;
  name_scope& operator=(const name_scope&) = delete;

private:
  graph& graph_;
  graph::variable_scope around_;
};

} // namespace mailgrad
