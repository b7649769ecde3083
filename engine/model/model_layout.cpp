#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/model_layout.hpp>
#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/variable_union.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace mailgrad {

parameter_layout lay_out(const model_function& build, model_request request, std::size_t shards,
                         shard_cuts where) {
  variable_union all;
  request.batch = 1;
  for (request.worker = 0; request.worker < request.workers; ++request.worker) {
    graph g;
    const model_outputs outputs = build_fitting(build, g, request);
    const std::vector<value> variables = g.variables();
    all.add(g, gradients(outputs.loss, variables), request.worker);
  }
  return all.lay_out(shards, where);
}

namespace {

bool lies_in(const placed_variable& v, const shard_range& range) {
  return v.offset + v.dims.size() > range.begin && v.offset < range.end;
}

bool lies_whole_in(const placed_variable& v, const shard_range& range) {
  return v.offset >= range.begin && v.offset + v.dims.size() <= range.end;
}

std::vector<shard_variable> variables_in(const parameter_layout& layout, const shard_range& range) {
  std::vector<shard_variable> found;
  for (const placed_variable& v : layout.variables()) {
    if (!lies_in(v, range)) continue;
    if (!lies_whole_in(v, range))
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

std::vector<shard_variable> whole_variables_of(const parameter_layout& layout, std::uint32_t shard) {
  const shard_range range = layout.shard(shard);
  const auto is_cut = [&](const placed_variable& v) { return lies_in(v, range) && !lies_whole_in(v, range); };
  if (std::ranges::any_of(layout.variables(), is_cut)) return {};
  return variables_in(layout, range);
}

} // namespace mailgrad
