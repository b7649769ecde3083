#include <mailgrad/graph/placed_sum.hpp>

#include <mailgrad/graph/operation.hpp>
#include <mailgrad/kernels/elementwise.hpp>

#include <algorithm>

namespace mailgrad {

namespace {

const operation_node* operation_of(const graph& g, const value& v) {
  return std::get_if<operation_node>(&g.of(v).what);
}

/// Whether `v` adds two values of its own shape (what is broadcast is no addend as it is) from two devices.
bool joins_devices(const graph& g, const placement& places, const value& v) {
  const operation_node* const node = operation_of(g, v);
  if (!node || (*node)->function() != elementwise_function::add) return false;
  const std::vector<value>& operands = g.of(v).inputs;
  for (const value& x : operands)
    if (!operation_of(g, x) || x.dims() != v.dims()) return false;
  return operands.size() == 2 && places.of(operands[0].node()) != places.of(operands[1].node());
}

} // namespace

/// Only to the left: (a + b) + c may be taken one after the other without other bits, a + (b + c) may not.
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
