#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/graph/serialisable.hpp>

#include <concepts>
#include <map>

namespace mailgrad {

/// The kinds of operations that can be read from bytes. It has all built-in kinds from the start; a program
/// that reads graphs with operations of its own adds these:
///
///     operation_registry known;
///     known.add<huber_operation>();
///
/// Threads const access from many threads.
class operation_registry {
public:
  /// Makes an operation of the attributes that it reads.
  using maker = std::function<operation_node(archive& attributes)>;

  operation_registry();

  /// Adds the kind of `blank`, of which each operation begins as a copy.
  ///
  /// Errors  std::invalid_argument if there is such a kind already, or the kind has no owner before its name,
  ///         as "acme.huber" has.
  template <class T>
  requires std::derived_from<T, operation> && std::derived_from<T, serial_form> && std::copy_constructible<T>
  void add(T blank = T()) {
    std::string kind(blank.kind());
    add(std::move(kind), [blank = std::move(blank)](archive& attributes) -> operation_node {
      auto made = std::make_shared<T>(blank);
      made->read_attributes(attributes);
      return made;
    });
  }
  /// Errors  std::invalid_argument as above, and for a maker that is no function.
  void add(std::string kind, maker make);

  /// Errors  graph_error if there is no such kind, in one line that names it and a similar one; what the
  ///         archive and the operation throw.
  operation_node make(std::string_view kind, archive& attributes) const;

  bool knows(std::string_view kind) const { return makers_.contains(kind); }
  std::vector<std::string_view> kinds() const;

private:
  std::map<std::string, maker, std::less<>> makers_;
  bool own_ = false; ///< whether all built-in kinds are there, so that the next ones are a program's own
};

} // namespace mailgrad
