#include <mailgrad/engine/model/shard_variables.hpp>

#include <fmt/format.h>

#include <stdexcept>

namespace mailgrad {

namespace {

std::vector<shard_variable> variables_in(const parameter_layout& layout, const shard_range& range) {
  std::vector<shard_variable> found;
  for (const placed_variable& v : layout.variables()) {
    const std::size_t end = v.offset + v.dims.size();
    if (end <= range.begin || v.offset >= range.end) continue;
    if (v.offset < range.begin || end > range.end)
      throw std::invalid_argument(
          fmt::format("shard: variable '{}' is cut, and the optimizer looks at whole ones", v.name));
    found.push_back({v.name, v.dims, v.offset - range.begin, v.sparse});
  }
  return found;
}

} // namespace

std::vector<shard_variable> variables_for(const optimizer_options& options, const parameter_layout& layout,
                                          std::uint32_t shard) {
  if (!sees_whole_variables(options)) return {};
  return variables_in(layout, layout.shard(shard));
}

std::vector<shard_variable> all_variables_for(const optimizer_options& options,
                                              const parameter_layout& layout) {
  if (!sees_whole_variables(options)) return {};
  return variables_in(layout, {0, layout.size()});
}

} // namespace mailgrad
