#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/tensor/device.hpp>

#include <source_location>
#include <string_view>

namespace mailgrad {

/// During the lifetime of a scope, operations are added to the graph with its place.
class place_scope {
public:
  place_scope(graph& g, const node_place& place) : graph_(g), before_(g.place()) { g.set_place(place); }
  ~place_scope() { graph_.set_place(before_); }
  place_scope(const place_scope&) = delete;
  place_scope& operator=(const place_scope&) = delete;

private:
  graph& graph_;
  node_place before_;
};

/// During the lifetime of a scope, operations are placed on its device. An inner scope overrides an outer
/// one. The gradient of an operation runs on the same device. Inputs and variables have no place, since all
/// devices of a worker can read its batch and its weights.
///
///   const device_scope here(g, "cpu:1");
///
/// Errors  graph_error, naming the user's line, for a core that this machine does not have. A card that it
///         does not have is refused with the devices of the worker.
class device_scope {
public:
  device_scope(graph& g, device where, std::source_location line = std::source_location::current());
  device_scope(graph& g, std::string_view name, std::source_location line = std::source_location::current());

private:
  place_scope scope_;
};

} // namespace mailgrad
