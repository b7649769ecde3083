#pragma once

#include <mailgrad/tensor/shape.hpp>

#include <source_location>

namespace mailgrad {

class graph;

/// The shape and the element type of a value, which are known before anything runs.
struct value_type {
  shape dims;
  dtype type = dtype::float32;

  friend bool operator==(const value_type&, const value_type&) = default;
};

/// "float32 64x784"
std::string to_string(const value_type& t);

/// Names a line of the user's program in errors: "models.cpp:12".
std::string line_of(const std::source_location& where);

/// A handle to one output of one node. It is valid as long as its graph. Every operation refuses a value that
/// was made without a graph.
class value {
public:
  value() = default;
  value(graph& owner, std::uint32_t node, std::uint32_t output)
      : owner_(&owner), node_(node), output_(output) {}

  /// Errors  graph_error, naming the caller's line, from owner(), type() and dims() if no graph made this
  ///         value.
  graph& owner(std::source_location where = std::source_location::current()) const;
  const value_type& type(std::source_location where = std::source_location::current()) const;
  const shape& dims(std::source_location where = std::source_location::current()) const {
    return type(where).dims;
  }

  bool is_of(const graph& g) const noexcept { return owner_ == &g; }
  std::uint32_t node() const noexcept { return node_; }
  std::uint32_t output() const noexcept { return output_; }

  friend bool operator==(const value&, const value&) = default;

private:
  graph* owner_ = nullptr;
  std::uint32_t node_ = 0;
  std::uint32_t output_ = 0;
};

/// A value and the line of the user's program that uses it. It lets an operator such as `a + b` name that
/// line.
struct located {
  value what;
  std::source_location where;

  located(const value& v, std::source_location line = std::source_location::current())
      : what(v), where(line) {}
};

} // namespace mailgrad
