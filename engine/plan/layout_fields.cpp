#include <mailgrad/engine/plan/layout_fields.hpp>

#include <mailgrad/graph/kept_shape.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

constexpr std::uint64_t most_shards = 1 << 16;

/// A variable without its first values, which a worker gets from the shards.
struct told_variable {
  std::string name;
  shape dims;
  bool sparse = false;

  void keep(archive& a) {
    a.field("name", name);
    a.field("shape", dims);
    a.field("sparse", sparse);
  }
};

} // namespace

/// Offsets and cuts follow from names, shapes, the number of shards, and whether variables stay whole.
void keep_layout(archive& a, std::string_view name, std::shared_ptr<const parameter_layout>& layout) {
  std::vector<told_variable> told;
  std::uint64_t shards = 0;
  bool whole = false;
  if (!a.reads()) {
    for (const placed_variable& v : layout->variables()) told.push_back({v.name, v.dims, v.sparse});
    shards = layout->shard_count();
    whole = layout->cuts() == shard_cuts::between_variables;
  }
  a.group(name, [&] {
    a.field("variables", told);
    a.field("shards", shards);
    a.field("whole variables", whole);
  });
  if (!a.reads()) return;
  if (shards > most_shards)
    throw archive_error(fmt::format("{}: expected at most {} shards, found {}", name, most_shards, shards));
  std::vector<placed_variable> variables;
  for (told_variable& v : told) variables.push_back({std::move(v.name), v.dims, {}, 0, v.sparse});
  try {
    layout = std::make_shared<parameter_layout>(
        variables, shards, whole ? shard_cuts::between_variables : shard_cuts::within_variables);
  } catch (const std::invalid_argument& e) {
    throw archive_error(fmt::format("{}: {}", name, e.what()));
  }
}

} // namespace mailgrad
