#include <mailgrad/graph/program/fusion.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mailgrad {

namespace {

using node_set = std::vector<std::uint32_t>; // ascending

const operation* operation_of(const node& n) {
  const auto* op = std::get_if<operation_node>(&n.what);
  return op ? op->get() : nullptr;
}

/// Whether a node is one element-wise function whose operands each have as many elements as the result, or
/// one.
bool fusable(const node& n) {
  const operation* op = operation_of(n);
  if (!op || !op->function()) return false;
  const std::size_t size = n.outputs[0].dims.size();
  return std::ranges::all_of(n.inputs,
                             [&](const value& v) { return v.dims().size() == size || v.dims().size() == 1; });
}

bool contains(const node_set& nodes, std::uint32_t id) { return std::ranges::binary_search(nodes, id); }

/// Grows runs in the order of the nodes. A node joins the runs of its operands if no result is then computed
/// after a node that reads it.
class run_finder {
public:
  run_finder(const graph& model, std::span<const char> needed)
      : model_(model), readers_(model.nodes().size()), run_of_(model.nodes().size(), none) {
    for (std::uint32_t id = 0; id < needed.size(); ++id) {
      if (!needed[id]) continue;
      for (const value& v : model.nodes()[id].inputs) readers_[v.node()].push_back(id);
    }
    for (std::uint32_t id = 0; id < needed.size(); ++id)
      if (needed[id] && fusable(model.nodes()[id])) add(id);
  }

  const std::vector<node_set>& runs() const { return runs_; }
  const node_set& readers(std::uint32_t id) const { return readers_[id]; }

private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  void add(std::uint32_t id) {
    node_set joined{id};
    for (const value& v : model_.nodes()[id].inputs) {
      const std::size_t other = run_of_[v.node()];
      if (other == none || contains(joined, v.node()) || size_of(v.node()) != size_of(id)) continue;
      node_set both;
      std::ranges::set_union(joined, runs_[other], std::back_inserter(both));
      if (may_run_together(both)) joined = std::move(both);
    }
    for (const std::uint32_t member : joined) {
      if (run_of_[member] != none) runs_[run_of_[member]].clear();
      run_of_[member] = runs_.size();
    }
    runs_.push_back(std::move(joined));
  }

  std::size_t size_of(std::uint32_t id) const { return model_.nodes()[id].outputs[0].dims.size(); }

  bool may_run_together(const node_set& nodes) const {
    if (nodes.size() > elementwise_chain::max_steps) return false;
    std::vector<value> outside;
    for (const std::uint32_t id : nodes) {
      for (const std::uint32_t reader : readers_[id])
        if (reader < nodes.back() && !contains(nodes, reader)) return false;
      for (const value& v : model_.nodes()[id].inputs)
        if (!contains(nodes, v.node()) && std::ranges::find(outside, v) == outside.end())
          outside.push_back(v);
    }
    return outside.size() <= elementwise_chain::max_inputs;
  }

  const graph& model_;
  std::vector<node_set> readers_;
  std::vector<node_set> runs_; ///< a run that another one has absorbed is empty
  std::vector<std::size_t> run_of_;
};

/// Returns the index of `v` in `values`, and appends it if it is missing.
std::uint8_t place_of(const value& v, std::vector<value>& values) {
  const auto found = std::ranges::find(values, v);
  const auto place = static_cast<std::uint8_t>(found - values.begin());
  if (found == values.end()) values.push_back(v);
  return place;
}

/// Returns the first computed input of full size that no step after the first output reads.
std::optional<std::size_t> overwritable(const fused_run& run) {
  const auto steps = std::span(run.chain.steps).first(run.chain.step_count);
  const auto writer = std::ranges::find(steps, 0, &elementwise_chain::step::output);
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    const bool read_later =
        std::any_of(writer + 1, steps.end(), [&](const auto& s) { return s.a == i || s.b == i; });
    const bool computed = operation_of(run.inputs[i].owner().of(run.inputs[i])) != nullptr;
    if (computed && !read_later && run.chain.inputs[i] == elementwise_chain::extent::full) return i;
  }
  return std::nullopt;
}

fused_run describe(const graph& model, const node_set& nodes, const run_finder& finder,
                   std::span<const value> fetches) {
  fused_run run{nodes, {}, {}, {}, {}};
  const std::size_t size = model.nodes()[nodes.front()].outputs[0].dims.size();
  for (const std::uint32_t id : nodes)
    for (const value& v : model.nodes()[id].inputs)
      if (!contains(nodes, v.node())) {
        const std::uint8_t place = place_of(v, run.inputs);
        run.chain.inputs[place] =
            v.dims().size() == size ? elementwise_chain::extent::full : elementwise_chain::extent::one;
      }
  run.chain.input_count = static_cast<std::uint8_t>(run.inputs.size());

  const auto operand = [&](const value& v) {
    const auto member = std::ranges::find(nodes, v.node());
    if (member == nodes.end()) return place_of(v, run.inputs);
    return static_cast<std::uint8_t>(run.inputs.size() + static_cast<std::size_t>(member - nodes.begin()));
  };
  for (const std::uint32_t id : nodes) {
    const node& n = model.nodes()[id];
    const value result(n.inputs[0].owner(), id, 0);
    const bool read_outside =
        std::ranges::any_of(finder.readers(id), [&](std::uint32_t r) { return !contains(nodes, r); });
    const bool fetched = std::ranges::find(fetches, result) != fetches.end();
    auto& step = run.chain.steps[run.chain.step_count++];
    step = {*operation_of(n)->function(), operand(n.inputs.front()), operand(n.inputs.back()), -1};
    if (read_outside || fetched) step.output = static_cast<std::int8_t>(place_of(result, run.outputs));
  }
  run.overwrites = overwritable(run);
  return run;
}

} // namespace

std::vector<fused_run> find_fused_runs(const graph& model, std::span<const char> needed,
                                       std::span<const value> fetches) {
  if (needed.size() != model.nodes().size())
    throw graph_error(
        fmt::format("fusion: it is said of {} nodes whether they are needed, where the graph has {}",
                    needed.size(), model.nodes().size()));
  const run_finder finder(model, needed);
  std::vector<fused_run> runs;
  for (const node_set& nodes : finder.runs())
    if (nodes.size() > 1) runs.push_back(describe(model, nodes, finder, fetches));
  return runs;
}

} // namespace mailgrad
