#pragma once

#include <mailgrad/graph/graph.hpp>
#include <mailgrad/tensor/device.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace mailgrad {

/// Which device computes each operation of a graph.
///
/// An operation of a scope runs on its device, a gradient where its forward operation does. One without a
/// scope follows its operands: it runs where the last of them is computed, so that it never makes two devices
/// wait for each other; if it reads only inputs, variables and constants, on the first device.
///
/// Threads const access from many.
class placement {
public:
  /// `first` is for operations that nothing else places.
  placement(const graph& g, device first);

  /// Of an operation. Sources have no place.
  ///
  /// Errors  graph_error for a node that the graph did not have.
  device of(std::uint32_t node) const;
  /// Those that compute something, in the order in which operations first need them.
  const std::vector<device>& devices() const noexcept { return devices_; }

private:
  std::vector<std::size_t> places_; ///< by node: index in devices_
  std::vector<device> devices_;
};

// What follows checks a placement that was made of the whole graph: nodes that were added later are not in
// it.

/// Refuses operations on other devices than these.
///
/// Errors  graph_error that names the operation, its line, and the devices there are.
void require_devices(const graph& g, const placement& places, std::span<const device> devices);

/// Refuses a variable that operations on two devices read: for hogwild, where there is no version that both
/// could read.
///
/// Errors  graph_error that names the variable, both operations and their lines.
void require_variables_apart(const graph& g, const placement& places, const value& loss);

/// Refuses a forward pass that leaves a device and comes back: the pieces of a pipeline must follow one
/// another, since each works on another part of the batch at the same time.
///
/// Errors  graph_error that names the operation, its line, and the device it should be on.
void require_one_way(const graph& g, const placement& places, const value& loss);

} // namespace mailgrad
