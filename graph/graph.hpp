#pragma once

#include <mailgrad/graph/initialiser.hpp>
#include <mailgrad/graph/operation.hpp>
#include <mailgrad/tensor/tensor.hpp>

#include <stdexcept>
#include <unordered_map>

namespace mailgrad {

/// The model function made a mistake. The message names the user's line, the operation and the shapes.
class graph_error : public std::invalid_argument {
public:
  using std::invalid_argument::invalid_argument;
};

/// Whether graph::variable() may return a variable that already exists.
enum class sharing : std::uint8_t {
  allowed,  ///< the first call makes the variable, later calls share it
  required, ///< the variable must exist
  refused,  ///< the variable must be new
};

/// A node that computes nothing: its value is fed from outside.
struct input_node {};
struct variable_node {
  initialiser first_values;
};
struct constant_node {
  std::shared_ptr<const tensor> values;
};
using operation_node = std::shared_ptr<const operation>;

/// An operation with this place runs on the device of another node. The other places are a device, and
/// std::monostate, where placement decides (placement.hpp).
struct beside {
  std::uint32_t node = 0;
};
using node_place = std::variant<std::monostate, device, beside>;

struct node {
  std::variant<input_node, variable_node, constant_node, operation_node> what;
  std::string name; ///< unique for an input or a variable; may be empty for others
  std::vector<value> inputs;
  std::vector<value_type> outputs;
  std::source_location where; ///< the user's line that made the node
  node_place place{};         ///< of an operation; sources can be read on every device
  std::string scope{};        ///< the name scopes that an operation was added in, such as "block1/attention"
  std::string line{};         ///< where another program made the node, such as "models.cpp:12"; else empty
};

/// Names the line of the user's program that made a node: "models.cpp:12".
std::string line_of(const node& n);

/// Gives a value where a model function asks for an input.
using input_source =
    std::function<value(const std::string& name, const value_type& type, std::source_location where)>;

/// A model as data: inputs, named variables and operations, in an order in which they can be computed.
///
/// Errors  graph_error from every function that adds something; the graph has not changed then.
/// Threads one caller at a time.
class graph {
public:
  graph() = default;
  graph(const graph&) = delete; // values point to their graph
  graph& operator=(const graph&) = delete;

  value input(std::string name, const shape& dims, dtype type = dtype::float32,
              std::source_location where = std::source_location::current());
  /// Returns the variable of that name; the first call makes it. Another shape under that name is an error. A
  /// name_scope puts its own name before this one, and may require or refuse sharing.
  value variable(std::string name, const shape& dims, initialiser first_values,
                 std::source_location where = std::source_location::current());
  value constant(tensor values, std::source_location where = std::source_location::current());
  value constant(float scalar, std::source_location where = std::source_location::current());

  /// Adds a node for `op`; returns its outputs, at least one.
  std::vector<value> apply(operation_node op, std::vector<value> inputs, std::source_location where);
  /// Adds a node for `op`; returns its first output.
  value apply_one(operation_node op, std::vector<value> inputs, std::source_location where) {
    return apply(std::move(op), std::move(inputs), where).front();
  }

  /// Sets the source of inputs and returns the one before. While there is a source, input() returns its
  /// values and adds no input. So a model function can be given other values, such as a part of an input.
  input_source exchange_input_source(input_source source) {
    return std::exchange(input_source_, std::move(source));
  }

  /// Sets the place of the operations that are added from now on. The scopes in placement.hpp restore it.
  void set_place(const node_place& place) { place_ = place; }
  const node_place& place() const noexcept { return place_; }
  /// Sets the line that the nodes added from now on name in place of the caller's, such as "models.cpp:12".
  /// With an empty text they name the caller's again.
  void set_line(std::string line) { line_ = std::move(line); }
  const std::string& line() const noexcept { return line_; }
  /// The line that an error names: line() if it is set, else that of the caller.
  std::string line_at(const std::source_location& where) const {
    return line_.empty() ? line_of(where) : line_;
  }
  /// Sets the place of an existing operation.
  void place_node(std::uint32_t id, device where);

  const std::vector<node>& nodes() const noexcept { return nodes_; }
  /// Whether this graph made that value.
  bool has(const value& v) const noexcept {
    return v.is_of(*this) && v.node() < nodes_.size() && v.output() < nodes_[v.node()].outputs.size();
  }
  /// Errors  graph_error unless has(v).
  const node& of(const value& v) const;
  /// Inputs and variables come in the order in which they were made.
  std::vector<value> inputs() const;
  std::vector<value> variables() const;

private:
  friend class name_scope;

  /// The rules for variables that are asked for now.
  struct variable_scope {
    std::string prefix; ///< put before their names
    sharing share = sharing::allowed;
    std::string opened; ///< the scope that set `share`, with its line, in words
  };

  value add_source(node n);
  void require_operands(const operation_node& op, std::span<const value> inputs,
                        std::source_location where) const;
  std::optional<value> named(const std::string& name) const;
  value shared_variable(const value& known, const shape& dims, std::source_location where) const;
  void require_new_allowed(const std::string& name, std::source_location where) const;

  std::vector<node> nodes_;
  std::unordered_map<std::string, std::uint32_t> sources_by_name_; ///< inputs and variables
  variable_scope scope_;
  node_place place_;
  std::string line_;
  input_source input_source_;
};

/// Returns, by node, 1 if the values of `wanted` depend on the node, else 0. Values of `given` are not
/// computed, and neither are nodes that only they depend on.
///
/// Errors  graph_error for a value of another graph.
std::vector<char> needed_for(const graph& g, std::span<const value> wanted,
                             std::span<const value> given = {});

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
