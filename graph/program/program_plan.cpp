#include <mailgrad/graph/operations/elementwise.hpp>
#include <mailgrad/graph/program/program_plan.hpp>
#include <mailgrad/kernels/copy.hpp>
#include <mailgrad/tensor/fail_with.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

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

bool alive_together(const lifetime& a, const lifetime& b) { return a.first <= b.last && b.first <= a.last; }

/// Returns the offset of the smallest gap between values of `placed`, sorted by offset, that is large enough;
/// without one, the end.
std::size_t best_gap(const std::vector<lifetime>& all, const std::vector<std::size_t>& offsets,
                     const std::vector<std::size_t>& placed, const lifetime& wanted) {
  std::size_t best = 0;
  std::size_t best_size = std::numeric_limits<std::size_t>::max();
  std::size_t end = 0;
  for (const std::size_t other : placed) {
    if (!alive_together(all[other], wanted)) continue;
    const std::size_t gap = offsets[other] > end ? offsets[other] - end : 0;
    if (gap >= aligned(wanted.bytes) && gap < best_size) {
      best = end;
      best_size = gap;
    }
    end = std::max(end, offsets[other] + aligned(all[other].bytes));
  }
  return best_size == std::numeric_limits<std::size_t>::max() ? end : best;
}

std::size_t bytes_of(const value_type& t) { return t.dims.size() * byte_size(t.type); }

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

  void place_given(std::span<const value> given) {
    for (const value& v : given) {
      const auto kept = kept_by_maker(v);
      plan_.storages_of[v.node()][v.output()] = add({.where = storage::place::source,
                                                     .bytes = kept.value_or(bytes_of(v.type())),
                                                     .kept = kept.has_value(),
                                                     .name = fmt::format("the output of node {}", v.node())});
    }
  }

  /// Makes the steps of all nodes. A fused run takes the place of its last node.
  void place_nodes(std::span<const value> fetches, const std::vector<char>& needed) {
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

  void place_fetches(std::span<const value> fetches, std::size_t handed_on) {
    for (std::size_t i = 0; i < fetches.size(); ++i) {
      std::size_t s = plan_.storage_of(fetches[i]);
      const storage& found = plan_.storages[s];
      if (found.kept && i >= handed_on)
        fail_with<graph_error>("{}: a GPU does not make this value", in_words(model_, fetches[i].node()));
      if (found.where != storage::place::arena || found.fetch != storage::none) s = copy_of(s);
      plan_.storages[s].fetch = i;
      plan_.fetches.push_back(s);
    }
    for (const std::size_t s : plan_.fetches) plan_.storages[s].last = plan_.steps.size();
  }

  program_plan take() { return std::move(plan_); }

private:
  std::size_t add(storage s) {
    plan_.storages.push_back(std::move(s));
    return plan_.storages.size() - 1;
  }

  /// The bytes that the kernel of a given value keeps in its place, if it does. What this kind of device does
  /// not compute has come from another kind, which keeps nothing.
  std::optional<std::size_t> kept_by_maker(const value& v) const {
    const auto* op = std::get_if<operation_node>(&model_.of(v).what);
    if (where_ == device_kind::cpu || !op || (*op)->is_view()) return std::nullopt;
    try {
      return prepared(v.node(), **op)->kept_bytes(v.output());
    } catch (const graph_error&) {
      return std::nullopt;
    }
  }

  void place_node(std::uint32_t id) {
    const node& n = model_.nodes()[id];
    if (const auto* op = std::get_if<operation_node>(&n.what)) return place_operation(id, **op);
    storage s{.where = storage::place::source, .bytes = bytes_of(n.outputs[0]), .name = n.name};
    if (const auto* fixed = std::get_if<constant_node>(&n.what)) {
      s.where = storage::place::constant;
      s.constant = fixed->values->data();
    }
    plan_.storages_of[id][0] = add(std::move(s));
  }

  void place_operation(std::uint32_t id, const operation& op) {
    const node& n = model_.nodes()[id];
    if (op.is_view()) {
      if (n.inputs.empty() || bytes_of(n.inputs[0].type()) != bytes_of(n.outputs[0]))
        fail_with<graph_error>("{} is a view of memory that is not as long as its result",
                               in_words(model_, id));
      plan_.storages_of[id][0] = plan_.storage_of(n.inputs[0]);
      return;
    }
    std::vector<value> outputs;
    for (std::uint32_t i = 0; i < n.outputs.size(); ++i)
      outputs.emplace_back(const_cast<graph&>(model_), id, i); // a value is only a handle
    place_step(prepared(id, op), n.inputs, outputs, op.overwrites());
  }

  std::unique_ptr<executable> prepared(std::uint32_t id, const operation& op) const {
    const node& n = model_.nodes()[id];
    if (!op.runs_on(where_)) fail_with<graph_error>("{} has no kernel for a GPU yet", in_words(model_, id));
    std::vector<value_type> types;
    for (const value& v : n.inputs) types.push_back(v.type());
    try {
      if (auto work = op.prepare(types, n.outputs, where_)) return work;
    } catch (const shape_error& e) {
      fail_with<graph_error>("{}: {}", in_words(model_, id), e.what());
    }
    fail_with<graph_error>("{} has nothing to run", in_words(model_, id));
  }

  void place_run(const fused_run& run) {
    const std::size_t n = run.outputs.front().dims().size();
    place_step(make_executable(run.chain, n, where_), run.inputs, run.outputs, run.overwrites);
  }

  void place_step(std::unique_ptr<executable> work, std::span<const value> inputs,
                  std::span<const value> outputs, std::optional<std::size_t> overwrites) {
    planned_step made{std::move(work)};
    const std::size_t position = plan_.steps.size();
    made.words = in_words(model_, outputs.front().node());
    made.overwrites = overwrites;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      storage& s = plan_.storages[plan_.storage_of(inputs[i])];
      if (s.kept != made.work->reads_kept(i))
        fail_with<graph_error>("{}: operand {} is what a kernel keeps for its gradient", made.words, i);
      made.inputs.push_back(plan_.storage_of(inputs[i]));
      s.last = position;
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const value& v = outputs[i];
      const auto kept = made.work->kept_bytes(i);
      made.outputs.push_back(plan_.storages_of[v.node()][v.output()] =
                                 add({.bytes = kept.value_or(bytes_of(v.type())),
                                      .first = position,
                                      .last = position,
                                      .kept = kept.has_value()}));
    }
    plan_.steps.push_back(std::move(made));
  }

  /// Copies a value that cannot be computed in the memory of its fetch: a source, or a value that is fetched
  /// twice.
  std::size_t copy_of(std::size_t from) {
    plan_.storages[from].last = plan_.steps.size();
    const std::size_t bytes = plan_.storages[from].bytes;
    planned_step made{
        kernel([bytes](const stream& s, const call& c) { copy_bytes(s, c.outputs[0], c.inputs[0], bytes); })};
    made.inputs = {from};
    made.outputs = {add({.bytes = bytes, .first = plan_.steps.size()})};
    plan_.steps.push_back(std::move(made));
    return plan_.storages.size() - 1;
  }

  const graph& model_;
  device_kind where_;
  program_plan plan_;
};

/// The only step that reads what step `i` writes, if the step writes one value that nobody fetches.
std::optional<std::size_t> only_reader(const program_plan& plan, std::size_t i) {
  if (plan.steps[i].outputs.size() != 1) return std::nullopt;
  const std::size_t written = plan.steps[i].outputs.front();
  if (plan.storages[written].fetch != storage::none) return std::nullopt;
  std::optional<std::size_t> reader;
  for (std::size_t k = i + 1; k < plan.steps.size(); ++k) {
    if (std::ranges::find(plan.steps[k].inputs, written) == plan.steps[k].inputs.end()) continue;
    if (reader) return std::nullopt;
    reader = k;
  }
  return reader;
}

/// Runs the product at the place of the kernel behind it, and leaves its own place.
void join(program_plan& plan, std::size_t product, std::size_t reader) {
  planned_step& from = plan.steps[product];
  planned_step& to = plan.steps[reader];
  storage& between = plan.storages[from.outputs.front()];
  between.bytes = 0;
  between.first = between.last = reader;
  to.work = std::move(from.work);
  to.inputs = {from.inputs[0], from.inputs[1], to.inputs[1]};
  to.overwrites = std::nullopt;
  for (const std::size_t s : to.inputs) plan.storages[s].last = std::max(plan.storages[s].last, reader);
  plan.steps.erase(plan.steps.begin() + static_cast<std::ptrdiff_t>(product));
  for (storage& s : plan.storages) {
    if (s.first > product) --s.first;
    if (s.last > product) --s.last;
  }
}

bool try_to_join(program_plan& plan, std::size_t product) {
  const auto reader = only_reader(plan, product);
  if (!reader) return false;
  const planned_step& behind = plan.steps[*reader];
  const auto bias = behind.work->as_row_bias();
  if (!bias || behind.inputs[0] != plan.steps[product].outputs.front()) return false;
  if (plan.storages[behind.inputs[1]].where == storage::place::arena) return false;
  if (!plan.steps[product].work->take_row_bias(*bias)) return false;
  join(plan, product, *reader);
  return true;
}

/// Lets a matrix product add the bias that the only kernel behind it would add: on a GPU that saves a kernel
/// and a pass over the result. The bias must be there when the program begins. To be called before
/// plan_storage().
void join_products(program_plan& plan) {
  for (std::size_t i = 0; i < plan.steps.size();)
    if (!try_to_join(plan, i)) ++i;
}

bfloat16_form* form_of(const planned_step& s) { return dynamic_cast<bfloat16_form*>(s.work.get()); }

struct place_in_step {
  bfloat16_form* form;
  std::size_t number;
};

struct value_users {
  std::optional<place_in_step> maker;
  std::vector<place_in_step> readers;
  bool may_be_rounded() const {
    const auto may_read = [](const place_in_step& r) { return r.form && r.form->may_read(r.number); };
    return maker && maker->form && maker->form->may_write(maker->number) && !readers.empty() &&
           std::ranges::all_of(readers, may_read);
  }
};

std::vector<value_users> users_of(const program_plan& plan) {
  std::vector<value_users> users(plan.storages.size());
  for (const planned_step& s : plan.steps) {
    for (std::size_t i = 0; i < s.outputs.size(); ++i) users[s.outputs[i]].maker = {form_of(s), i};
    for (std::size_t i = 0; i < s.inputs.size(); ++i) users[s.inputs[i]].readers.push_back({form_of(s), i});
  }
  return users;
}

/// Rounds those values that need no float32 at all. Returns which they are.
std::vector<char> round_where_made(program_plan& plan) {
  std::vector<char> rounded(plan.storages.size());
  const std::vector<value_users> users = users_of(plan);
  for (std::size_t v = 0; v < users.size(); ++v) {
    storage& s = plan.storages[v];
    if (s.where != storage::place::arena || s.fetch != storage::none || s.kept) continue;
    if (!users[v].may_be_rounded()) continue;
    users[v].maker->form->write_rounded(users[v].maker->number);
    for (const place_in_step& r : users[v].readers) r.form->read_rounded(r.number);
    s.bytes = s.bytes / sizeof(float) * sizeof(bfloat16);
    rounded[v] = 1;
  }
  return rounded;
}

/// Makes the steps of a plan anew, with copies of the values that are still to be rounded.
class copies_of_values {
public:
  copies_of_values(program_plan& plan, std::vector<char> rounded)
      : plan_(plan), rounded_(std::move(rounded)) {}

  void make() {
    for (planned_step& s : std::exchange(plan_.steps, {})) {
      if (bfloat16_form* const form = form_of(s))
        for (std::size_t i = 0; i < s.inputs.size(); ++i)
          if (form->needs(i) && !rounded_[s.inputs[i]]) {
            form->read_rounded(i);
            s.inputs[i] = copy_of(s.inputs[i], s.words);
          }
      plan_.steps.push_back(std::move(s));
    }
    tell_lifetimes();
  }

private:
  std::size_t copy_of(std::size_t from, const std::string& words) {
    const auto known = copies_.find(from);
    if (known != copies_.end()) return known->second;
    const std::size_t n = plan_.storages[from].bytes / sizeof(float);
    plan_.storages.push_back({.bytes = n * sizeof(bfloat16)});
    rounded_.push_back(1);
    planned_step made{kernel([n](const stream& s, const call& c) {
      round_floats(s, {c.in(0), n}, c.out<bfloat16>());
    })};
    made.inputs = {from};
    made.outputs = {plan_.storages.size() - 1};
    made.words = words + " of a rounded operand";
    plan_.steps.push_back(std::move(made));
    return copies_[from] = plan_.storages.size() - 1;
  }

  /// The steps have moved. What is fetched lives to the end.
  void tell_lifetimes() {
    std::vector<char> seen(plan_.storages.size());
    const auto use = [&](std::size_t v, std::size_t step) {
      storage& s = plan_.storages[v];
      if (!std::exchange(seen[v], 1)) s.first = step;
      s.last = step;
    };
    for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
      for (const std::size_t v : plan_.steps[i].inputs) use(v, i);
      for (const std::size_t v : plan_.steps[i].outputs) use(v, i);
    }
    for (const std::size_t v : plan_.fetches) plan_.storages[v].last = plan_.steps.size();
  }

  program_plan& plan_;
  std::vector<char> rounded_;                 ///< by storage
  std::map<std::size_t, std::size_t> copies_; ///< by the storage of the value
};

/// Lets products read bfloat16. A value lies as bfloat16 alone if the kernel that makes it may write that and
/// all that read it may read it, as bfloat16_form tells. Other values that products read get a copy: a kernel
/// makes it before the first of them, and all read the same one. To be called before plan_storage().
void round_products(program_plan& plan) { copies_of_values(plan, round_where_made(plan)).make(); }

/// Which storages share the memory of another.
class sharing_of_storage {
public:
  explicit sharing_of_storage(program_plan& plan) : plan_(plan), merged_into_(plan.storages.size()) {
    std::iota(merged_into_.begin(), merged_into_.end(), std::size_t{0});
  }

  /// Merges the output of each step with the input that it may overwrite, if no later step reads that.
  void merge() {
    for (std::size_t position = 0; position < plan_.steps.size(); ++position) {
      const planned_step& s = plan_.steps[position];
      if (!s.overwrites || *s.overwrites >= s.inputs.size() || !may_overwrite(s, position)) continue;
      const storage& output = plan_.storages[s.outputs[0]];
      const std::size_t target = memory_of(s.inputs[*s.overwrites]);
      merged_into_[s.outputs[0]] = target;
      plan_.storages[target].last = std::max(plan_.storages[target].last, output.last);
      plan_.storages[target].fetch = output.fetch;
    }
    for (planned_step& s : plan_.steps) {
      for (std::size_t& used : s.inputs) used = memory_of(used);
      for (std::size_t& used : s.outputs) used = memory_of(used);
    }
    for (std::size_t& used : plan_.fetches) used = memory_of(used);
  }
  bool owns_memory(std::size_t s) const { return merged_into_[s] == s; }

private:
  std::size_t memory_of(std::size_t s) const {
    while (merged_into_[s] != s) s = merged_into_[s];
    return s;
  }
  bool may_overwrite(const planned_step& s, std::size_t position) const {
    const std::size_t target = memory_of(s.inputs[*s.overwrites]);
    const storage& memory = plan_.storages[target];
    const auto uses =
        std::ranges::count_if(s.inputs, [&](std::size_t other) { return memory_of(other) == target; });
    return uses == 1 && memory.where == storage::place::arena && memory.fetch == storage::none &&
           memory.last == position && memory.bytes == plan_.storages[s.outputs[0]].bytes;
  }

  program_plan& plan_;
  std::vector<std::size_t> merged_into_; ///< by storage: itself, or the storage whose memory it shares
};

/// Finds memory that one step writes and no step reads. Only the caller reads it.
void find_only_steps(program_plan& plan) {
  std::vector<std::size_t> touched(plan.storages.size());
  for (const planned_step& s : plan.steps) {
    for (const std::size_t used : s.inputs) ++touched[used];
    for (const std::size_t used : s.outputs) ++touched[used];
  }
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const std::vector<std::size_t>& outputs = plan.steps[i].outputs;
    if (outputs.size() == 1 && touched[outputs[0]] == 1) plan.storages[outputs[0]].only_step = i;
  }
}

/// Decides by plan_memory() which storages share memory, and where in the arena each of them lies.
void plan_storage(program_plan& plan) {
  sharing_of_storage shared(plan);
  shared.merge();
  find_only_steps(plan);
  std::vector<lifetime> lifetimes;
  std::vector<storage*> owners;
  for (std::size_t s = 0; s < plan.storages.size(); ++s) {
    storage& memory = plan.storages[s];
    if (memory.where != storage::place::arena || !shared.owns_memory(s)) continue;
    lifetimes.push_back({memory.bytes, memory.first, memory.last});
    owners.push_back(&memory);
  }
  const memory_plan placed = plan_memory(lifetimes);
  for (std::size_t i = 0; i < owners.size(); ++i) owners[i]->offset = placed.offsets[i];
  plan.arena_bytes = placed.bytes;
  for (const planned_step& s : plan.steps)
    plan.scratch_bytes = std::max(plan.scratch_bytes, s.work->scratch_bytes());
}

} // namespace

std::vector<fused_run> find_fused_runs(const graph& model, std::span<const char> needed,
                                       std::span<const value> fetches) {
  if (needed.size() != model.nodes().size())
    fail_with<graph_error>("fusion: it is said of {} nodes whether they are needed, where the graph has {}",
                           needed.size(), model.nodes().size());
  const run_finder finder(model, needed);
  std::vector<fused_run> runs;
  for (const node_set& nodes : finder.runs())
    if (nodes.size() > 1) runs.push_back(describe(model, nodes, finder, fetches));
  return runs;
}

memory_plan plan_memory(const std::vector<lifetime>& lifetimes) {
  std::vector<std::size_t> by_size(lifetimes.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  std::ranges::stable_sort(by_size, std::greater<>{}, [&](std::size_t i) { return lifetimes[i].bytes; });

  memory_plan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<std::size_t> placed; // sorted by offset
  for (const std::size_t i : by_size) {
    plan.offsets[i] = best_gap(lifetimes, plan.offsets, placed, lifetimes[i]);
    plan.bytes = std::max(plan.bytes, plan.offsets[i] + aligned(lifetimes[i].bytes));
    const auto position =
        std::ranges::upper_bound(placed, plan.offsets[i], {}, [&](std::size_t p) { return plan.offsets[p]; });
    placed.insert(position, i);
  }
  return plan;
}

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
