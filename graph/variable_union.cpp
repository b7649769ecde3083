#include <mailgrad/graph/variable_union.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <algorithm>

namespace mailgrad {
namespace {

std::string place_of(std::uint32_t worker, const std::source_location& where) {
  return fmt::format("the graph of worker {} ({})", worker, line_of(where));
}

} // namespace

variable_union::entry variable_union::entry_of(const node& variable, const adjoint& gradient,
                                               std::uint32_t worker) {
  const gradient_form form = gradient.dense            ? gradient_form::whole
                             : gradient.sparse.empty() ? gradient_form::none
                                                       : gradient_form::rows;
  return {variable.name,
          variable.outputs.front(),
          std::get<variable_node>(variable.what).first_values,
          form,
          worker,
          variable.where,
          worker,
          variable.where};
}

variable_union::entry* variable_union::find(const std::string& name) {
  const auto found = std::ranges::find(entries_, name, &entry::name);
  return found == entries_.end() ? nullptr : &*found;
}

void variable_union::require_alike(const entry& known, const entry& found) {
  if (!(known.type == found.type))
    fail_with<graph_error>("variable '{}' is {} in {}, but {} in {}; workers share what has one name, so "
                           "give both one shape, or two names",
                           found.name, to_string(found.type), place_of(found.worker, found.where),
                           to_string(known.type), place_of(known.worker, known.where));
  if (known.form == gradient_form::none || found.form == gradient_form::none || known.form == found.form)
    return;
  const bool rows = found.form == gradient_form::rows;
  fail_with<graph_error>("the gradient of variable '{}' {} in {}, but {} in {}; let all workers gather its "
                         "rows, or none, or give it two names",
                         found.name, rows ? "comes in rows" : "is whole", place_of(found.worker, found.where),
                         rows ? "is whole" : "comes in rows", place_of(known.trainer, known.trained_where));
}

void variable_union::add(const graph& model, std::span<const adjoint> adjoints, std::uint32_t worker) {
  const std::vector<value> variables = model.variables();
  if (adjoints.size() != variables.size())
    fail_with<graph_error>(
        "{} gradients for the {} variables of the graph of worker {}; one for each is needed",
        adjoints.size(), variables.size(), worker);
  std::vector<entry> found;
  for (std::size_t v = 0; v < variables.size(); ++v) {
    found.push_back(entry_of(model.of(variables[v]), adjoints[v], worker));
    if (const entry* known = find(found.back().name)) require_alike(*known, found.back());
  }
  for (entry& e : found) {
    entry* const known = find(e.name);
    if (known == nullptr) {
      entries_.push_back(std::move(e));
    } else if (known->form == gradient_form::none) {
      known->form = e.form;
      known->trainer = e.worker;
      known->trained_where = e.where;
    }
  }
}

parameter_layout variable_union::lay_out(std::size_t shards, shard_cuts where) const {
  std::vector<placed_variable> variables;
  for (const entry& e : entries_)
    variables.push_back({e.name, e.type.dims, e.first_values, 0, e.form == gradient_form::rows});
  return {variables, shards, where};
}

} // namespace mailgrad
