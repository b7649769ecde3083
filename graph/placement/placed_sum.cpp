#include <mailgrad/graph/placement/placed_sum.hpp>

#include <mailgrad/graph/operation.hpp>
#include <mailgrad/kernels/elementwise.hpp>

#include <algorithm>

namespace mailgrad {

namespace {

const operation_node* operation_of(const graph& g, const value& v) {
  return std::get_if<operation_node>(&g.of(v).what);
}

/// Whether `v` adds two values from two devices. Both must have its shape, since a value that is broadcast is
/// no addend by itself.
bool joins_devices(const graph& g, const placement& places, const value& v) {
  const operation_node* const node = operation_of(g, v);
  if (!node || (*node)->function() != elementwise_function::add) return false;
  const std::vector<value>& operands = g.of(v).inputs;
  for (const value& x : operands)
    if (!operation_of(g, x) || x.dims() != v.dims()) return false;
  return operands.size() == 2 && places.of(operands[0].node()) != places.of(operands[1].node());
}

} // namespace

/// Follows only the left operands. Adding a, b and c in order gives the same bits as (a + b) + c, but not as
/// a + (b + c).
std::vector<value> addends_on_devices(const graph& g, const placement& places, const value& sum) {
  std::vector<value> found;
  value first = sum;
  for (; joins_devices(g, places, first); first = g.of(first).inputs[0])
    found.insert(found.begin(), g.of(first).inputs[1]);
  found.insert(found.begin(), first);
  if (found.size() == 1) return found;
  std::vector<device> devices;
  for (const value& v : found) {
    const device where = places.of(v.node());
    if (std::ranges::find(devices, where) != devices.end()) return {sum};
    devices.push_back(where);
  }
  return found;
}

} // namespace mailgrad
