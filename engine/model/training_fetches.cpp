#include <mailgrad/engine/model/training_fetches.hpp>

#include <mailgrad/graph/gradients.hpp>
#include <mailgrad/graph/placement/placement.hpp>

#include <algorithm>
#include <string>

namespace mailgrad {

namespace {

std::size_t add(training_fetches& list, const value& v) {
  list.fetches.push_back(v);
  return list.fetches.size() - 1;
}

void add_sparse(training_fetches& list, const graph& g, std::size_t variable, const sparse_rows& part,
                const model_request& request) {
  const shape& dims = part.values.dims();
  sparse_fetch f{variable, dims.back(), part.rows.dims().size(), add(list, part.values), {}, {}};
  const node& rows = g.of(part.rows);
  if (std::holds_alternative<input_node>(rows.what))
    f.rows_in_batch = part_for(rows.name, request);
  else
    f.rows = add(list, part.rows);
  list.sparse.push_back(std::move(f));
}

} // namespace

training_fetches loss_and_gradients(graph& g, const model_outputs& outputs, const parameter_layout& layout,
                                    const model_request& request) {
  training_fetches list;
  add(list, outputs.loss);
  const std::vector<value> variables = g.variables();
  const std::vector<adjoint> adjoints = gradients(outputs.loss, variables);
  for (std::size_t v = 0; v < variables.size(); ++v) {
    const std::string& name = g.of(variables[v]).name;
    const auto& placed = layout.variables();
    const auto found = std::ranges::find(placed, name, &placed_variable::name);
    if (found == placed.end())
      throw graph_error(line_of(g.of(variables[v])) + ": variable '" + name +
                        "' is not in the layout of this run");
    const auto variable = static_cast<std::size_t>(found - placed.begin());
    if (adjoints[v].dense)
      list.dense.push_back({add(list, *adjoints[v].dense), variable, found->offset, found->dims.size()});
    for (const sparse_rows& part : adjoints[v].sparse) add_sparse(list, g, variable, part, request);
  }
  return list;
}

void take_sums_apart(training_fetches& list, const graph& g, const placement& places) {
  const std::size_t sums = list.dense.size();
  for (std::size_t i = 0; i < sums; ++i) {
    dense_fetch f = list.dense[i];
    const std::vector<value> addends = addends_on_devices(g, places, list.fetches[f.index]);
    list.fetches[f.index] = addends.front();
    f.further = true;
    for (std::size_t k = 1; k < addends.size(); ++k) {
      f.index = add(list, addends[k]);
      list.dense.push_back(f);
    }
  }
}

} // namespace mailgrad
