#pragma once

#include <mailgrad/graph/graph.hpp>

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
/// Errors  graph_error, naming the user's line, for a core that this machine does not have. A GPU that it
///         does not have is refused with the devices of the worker.
class device_scope {
public:
  device_scope(graph& g, device where, std::source_location line = std::source_location::current());
  device_scope(graph& g, std::string_view name, std::source_location line = std::source_location::current());

private:
  place_scope scope_;
};

/// Which device computes each operation of a graph.
///
/// An operation in a device_scope runs on that device, and a gradient on the device of its forward operation.
/// An operation without a scope runs where the last of its operands is computed, so it never makes two
/// devices wait for each other. If it reads only inputs, variables and constants, it runs on the first
/// device.
///
/// Threads const access from many threads.
class placement {
public:
  /// `first` is the device of operations that neither a scope nor an operand places.
  placement(const graph& g, device first);

  /// The device of an operation. Sources have no place.
  ///
  /// Errors  graph_error for a node that was not in the graph when it was placed.
  device of(std::uint32_t node) const;
  /// The devices that compute something, in the order in which operations first need them.
  const std::vector<device>& devices() const noexcept { return devices_; }

private:
  std::vector<std::size_t> places_; ///< by node: index in devices_
  std::vector<device> devices_;
};

// The functions below check a placement of the whole graph. Nodes that were added after it was made have no
// place in it.

/// Refuses operations on devices other than `devices`.
///
/// Errors  graph_error that names the operation, its line, and the devices there are.
void require_devices(const graph& g, const placement& places, std::span<const device> devices);

/// Refuses a variable that operations on two devices read. Hogwild needs this, since it has no versions of
/// which both devices could read the same.
///
/// Errors  graph_error that names the variable, both operations and their lines.
void require_variables_apart(const graph& g, const placement& places, const value& loss);

/// Refuses a forward pass that leaves a device and returns to it. The stages of a pipeline must follow one
/// another, since they work on different parts of the batch at the same time.
///
/// Errors  graph_error that names the operation, its line, and the device it should be on.
void require_one_way(const graph& g, const placement& places, const value& loss);

/// Returns the addends of `sum`, in their order, if each of them is computed on another device. A reader of
/// the sum may then take the addends from their devices, so that no device waits for the others. Otherwise it
/// returns only `sum`.
///
/// The gradient of a variable that replicas share is such a sum.
/// Errors  graph_error if `sum` belongs to another graph.
std::vector<value> addends_on_devices(const graph& g, const placement& places, const value& sum);

} // namespace mailgrad
