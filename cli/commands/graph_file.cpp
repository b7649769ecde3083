#include <mailgrad/cli/commands/graph_file.hpp>

#include <mailgrad/files/archive.hpp>
#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/files/file_error.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/travel/graph_bytes.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace mailgrad {

named_values read_graph_file(graph& into, const std::string& path) {
  byte_source file(path);
  const std::vector<std::uint8_t> bytes = read_up_to(file, byte_source::most_bytes);
  try {
    return read_graph(into, std::as_bytes(std::span(bytes)), operation_registry());
  } catch (const archive_error& e) {
    throw_malformed(path, e.what());
  } catch (const graph_error& e) {
    throw_malformed(path, e.what());
  }
}

void write_graph_to(std::ostream& out, const graph& g, const std::vector<named_value>& named) {
  const std::vector<std::byte> bytes = write_graph(g, named);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

std::optional<value> find_value(const named_values& named, std::string_view name) {
  const auto found = std::ranges::find(named.all(), name, &named_value::name);
  return found == named.all().end() ? std::nullopt : std::optional(found->what);
}

} // namespace mailgrad
