#include <mailgrad/graph/placement/device_scope.hpp>

#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

/// A card may belong to the machine of a worker. Whether it is there is found out where the run begins.
device checked(device d, const std::source_location& line) {
  if (d.kind == device_kind::cuda) return d;
  try {
    require_available(d);
  } catch (const device_error& e) {
    throw graph_error(fmt::format("{}: device scope: {}", line_of(line), e.what()));
  }
  return d;
}

device parsed(std::string_view name, const std::source_location& line) {
  try {
    return parse_device(name);
  } catch (const device_error& e) {
    throw graph_error(fmt::format("{}: device scope: {}", line_of(line), e.what()));
  }
}

} // namespace

device_scope::device_scope(graph& g, device where, std::source_location line)
    : scope_(g, checked(where, line)) {}
device_scope::device_scope(graph& g, std::string_view name, std::source_location line)
    : device_scope(g, parsed(name, line), line) {}

} // namespace mailgrad
