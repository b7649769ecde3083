#include <mailgrad/graph/program/program_plan.hpp>

#include <mailgrad/graph/needed.hpp>
#include <mailgrad/graph/operations/elementwise.hpp>
#include <mailgrad/graph/program/fusion.hpp>
#include <mailgrad/graph/program/joined_products.hpp>
#include <mailgrad/graph/program/rounded_values.hpp>
#include <mailgrad/kernels/copy_bytes.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace mailgrad {

namespace {

std::size_t bytes_of(const value_type& t) { return t.dims.size() * byte_size(t.type); }

/// Copies a value that cannot be computed in the memory of its fetch: a source, or a value that is fetched
/// twice.
class fetch_executable : public executable {
public:
  explicit fetch_executable(std::size_t bytes) : bytes_(bytes) {}
  void run(const stream& s, const call& c) override { copy_bytes(s, c.outputs[0], c.inputs[0], bytes_); }

private:
  std::size_t bytes_;
};

/// Names a node with its line: "models.cpp:12: gather".
std::string in_words(const graph& model, std::uint32_t node) {
  const auto& n = model.nodes()[node];
  const auto* op = std::get_if<operation_node>(&n.what);
  return fmt::format("{}: {}", line_of(n), op ? (*op)->name() : n.name);
}

/// Makes the steps and storages of a plan, each storage by itself.
class planner {
public:
  planner(const graph& model, device_kind where) : model_(model), where_(where) {
    for (const node& n : model.nodes()) plan_.storages_of.emplace_back(n.outputs.size(), storage::none);
  }

  void place_given(std::span<const value> given);
  void place_nodes(std::span<const value> fetches, const std::vector<char>& needed);
  void place_fetches(std::span<const value> fetches, std::size_t handed_on);
  program_plan take() { return std::move(plan_); }

private:
  std::size_t add(storage s);
  std::optional<std::size_t> kept_by_maker(const value& v) const;
  void place_node(std::uint32_t id);
  void place_operation(std::uint32_t id, const operation& op);
  std::unique_ptr<executable> prepared(std::uint32_t id, const operation& op) const;
  void place_run(const fused_run& run);
  void place_step(std::unique_ptr<executable> work, std::span<const value> inputs,
                  std::span<const value> outputs, std::optional<std::size_t> overwrites);
  std::size_t copy_of(std::size_t from);

  const graph& model_;
  device_kind where_;
  program_plan plan_;
};

std::size_t planner::add(storage s) {
  plan_.storages.push_back(std::move(s));
  return plan_.storages.size() - 1;
}

void planner::place_given(std::span<const value> given) {
  for (const value& v : given) {
    storage s;
    s.where = storage::place::source;
    s.bytes = bytes_of(v.type());
    s.name = fmt::format("the output of node {}", v.node());
    if (const auto kept = kept_by_maker(v)) {
      s.kept = true;
      s.bytes = *kept;
    }
    plan_.storages_of[v.node()][v.output()] = add(std::move(s));
  }
}

/// The bytes that the kernel of a given value keeps in its place, if it does. What this kind of device does
/// not compute has come from another kind, which keeps nothing.
std::optional<std::size_t> planner::kept_by_maker(const value& v) const {
  const auto* op = std::get_if<operation_node>(&model_.of(v).what);
  if (where_ == device_kind::cpu || !op || (*op)->is_view()) return std::nullopt;
  try {
    return prepared(v.node(), **op)->kept_bytes(v.output());
  } catch (const graph_error&) {
    return std::nullopt;
  }
}

/// Makes the steps of all nodes. A fused run takes the place of its last node.
void planner::place_nodes(std::span<const value> fetches, const std::vector<char>& needed) {
  const std::vector<fused_run> runs = find_fused_runs(model_, needed, fetches);
  std::vector<const fused_run*> run_of(model_.nodes().size());
  for (const fused_run& run : runs)
    for (const std::uint32_t id : run.nodes) run_of[id] = &run;
  for (std::uint32_t id = 0; id < model_.nodes().size(); ++id) {
    if (!needed[id]) continue;
    if (!run_of[id])
      place_node(id);
    else if (run_of[id]->nodes.back() == id)
      place_run(*run_of[id]);
  }
}

void planner::place_node(std::uint32_t id) {
  const node& n = model_.nodes()[id];
  if (const auto* op = std::get_if<operation_node>(&n.what)) return place_operation(id, **op);
  storage s;
  s.bytes = bytes_of(n.outputs[0]);
  s.name = n.name;
  s.where = storage::place::source;
  if (const auto* fixed = std::get_if<constant_node>(&n.what)) {
    s.where = storage::place::constant;
    s.constant = fixed->values->data();
  }
  plan_.storages_of[id][0] = add(std::move(s));
}

void planner::place_operation(std::uint32_t id, const operation& op) {
  const node& n = model_.nodes()[id];
  if (op.is_view()) {
    if (n.inputs.empty() || bytes_of(n.inputs[0].type()) != bytes_of(n.outputs[0]))
      throw graph_error(
          fmt::format("{} is a view of memory that is not as long as its result", in_words(model_, id)));
    plan_.storages_of[id][0] = plan_.storage_of(n.inputs[0]);
    return;
  }
  std::vector<value> outputs;
  for (std::uint32_t i = 0; i < n.outputs.size(); ++i)
    outputs.emplace_back(const_cast<graph&>(model_), id, i); // a value is only a handle
  place_step(prepared(id, op), n.inputs, outputs, op.overwrites());
}

std::unique_ptr<executable> planner::prepared(std::uint32_t id, const operation& op) const {
  const node& n = model_.nodes()[id];
  if (!op.runs_on(where_))
    throw graph_error(fmt::format("{} has no kernel for a card yet", in_words(model_, id)));
  std::vector<value_type> types;
  for (const value& v : n.inputs) types.push_back(v.type());
  try {
    if (auto work = op.prepare(types, n.outputs, where_)) return work;
  } catch (const shape_error& e) {
    throw graph_error(fmt::format("{}: {}", in_words(model_, id), e.what()));
  }
  throw graph_error(fmt::format("{} has nothing to run", in_words(model_, id)));
}

void planner::place_run(const fused_run& run) {
  const std::size_t n = run.outputs.front().dims().size();
  place_step(make_executable(run.chain, n, where_), run.inputs, run.outputs, run.overwrites);
}

void planner::place_step(std::unique_ptr<executable> work, std::span<const value> inputs,
                         std::span<const value> outputs, std::optional<std::size_t> overwrites) {
  planned_step made{std::move(work)};
  const std::size_t position = plan_.steps.size();
  made.words = in_words(model_, outputs.front().node());
  made.overwrites = overwrites;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    storage& s = plan_.storages[plan_.storage_of(inputs[i])];
    if (s.kept != made.work->reads_kept(i))
      throw graph_error(fmt::format("{}: operand {} is what a kernel keeps for its gradient", made.words, i));
    made.inputs.push_back(plan_.storage_of(inputs[i]));
    s.last = position;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const value& v = outputs[i];
    storage s;
    s.kept = made.work->kept_bytes(i).has_value();
    s.bytes = made.work->kept_bytes(i).value_or(bytes_of(v.type()));
    s.first = s.last = position;
    made.outputs.push_back(plan_.storages_of[v.node()][v.output()] = add(std::move(s)));
  }
  plan_.steps.push_back(std::move(made));
}

void planner::place_fetches(std::span<const value> fetches, std::size_t handed_on) {
  for (std::size_t i = 0; i < fetches.size(); ++i) {
    std::size_t s = plan_.storage_of(fetches[i]);
    const storage& found = plan_.storages[s];
    if (found.kept && i >= handed_on)
      throw graph_error(
          fmt::format("{}: a card does not make this value", in_words(model_, fetches[i].node())));
    if (found.where != storage::place::arena || found.fetch != storage::none) s = copy_of(s);
    plan_.storages[s].fetch = i;
    plan_.fetches.push_back(s);
  }
  for (const std::size_t s : plan_.fetches) plan_.storages[s].last = plan_.steps.size();
}

std::size_t planner::copy_of(std::size_t from) {
  plan_.storages[from].last = plan_.steps.size();
  storage copy;
  copy.bytes = plan_.storages[from].bytes;
  copy.first = plan_.steps.size();
  planned_step made{std::make_unique<fetch_executable>(copy.bytes)};
  made.inputs = {from};
  made.outputs = {add(std::move(copy))};
  plan_.steps.push_back(std::move(made));
  return plan_.storages.size() - 1;
}

} // namespace

std::size_t program_plan::storage_of(const value& v) const {
  return v.node() < storages_of.size() && v.output() < storages_of[v.node()].size()
             ? storages_of[v.node()][v.output()]
             : storage::none;
}

program_plan plan_program(const graph& model, std::span<const value> fetches, std::span<const value> given,
                          device_kind place, product_precision products, std::size_t handed_on) {
  for (const value& v : fetches)
    if (!model.has(v)) throw graph_error("compile: a fetched value belongs to another graph");
  for (const value& v : given)
    if (!model.has(v)) throw graph_error("compile: a given value belongs to another graph");
  planner p(model, place);
  p.place_given(given);
  p.place_nodes(fetches, needed_for(model, fetches, given));
  p.place_fetches(fetches, handed_on);
  program_plan plan = p.take();
  if (place == device_kind::cuda) join_products(plan);
  if (products == product_precision::bfloat16) round_products(plan);
  plan_storage(plan);
  return plan;
}

} // namespace mailgrad
