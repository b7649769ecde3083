#include <mailgrad/graph/program.hpp>

#include <mailgrad/graph/fusion.hpp>
#include <mailgrad/graph/memory_plan.hpp>
#include <mailgrad/graph/needed.hpp>
#include <mailgrad/graph/operations/elementwise.hpp>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace mailgrad {

namespace {

constexpr std::size_t none = static_cast<std::size_t>(-1);

std::size_t bytes_of(const value_type& t) { return t.dims.size() * byte_size(t.type); }

/// Copies a value that cannot be computed where it is wanted: a source, or a value that is fetched twice.
class copy_executable : public executable {
public:
  explicit copy_executable(std::size_t bytes) : bytes_(bytes) {}
  void run(const stream&, const call& c) override { std::memcpy(c.outputs[0], c.inputs[0], bytes_); }

private:
  std::size_t bytes_;
};

/// Memory of one or more values: some share it because one is a view of the other or overwrites it.
struct storage {
  enum class place : std::uint8_t { arena, source, constant };
  place where = place::arena;
  std::size_t bytes = 0;
  std::size_t first = 0;          ///< step that writes it
  std::size_t last = 0;           ///< last step that reads it
  std::size_t fetch = none;       ///< index of the fetch that this memory is
  std::size_t only_step = none;   ///< the one step that touches it, if this is its only output
  const void* address = nullptr;  ///< known from the start for a constant, by bind() for a source
  std::string name;               ///< of a source, for errors
  std::vector<const void**> uses; ///< arguments to patch when the address changes
};

struct step {
  std::unique_ptr<executable> work;
  std::vector<std::size_t> input_storage;
  std::vector<std::size_t> output_storage;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  next_use output_use = next_use::soon;
  std::string words; ///< "models.cpp:12: gather", for errors; of a fused run, its last node
};

} // namespace

class program::implementation {
public:
  implementation(const graph& model, std::span<const value> fetches, std::span<const value> given);

  void bind(const value& source, const void* memory) {
    if (!source.is_of(model_)) throw graph_error("bind: the value belongs to another graph");
    if (const std::size_t s = storage_of(source); s != none && storages_[s].where == storage::place::source)
      move(storages_[s], memory);
  }
  void bind_fetch(std::size_t index, void* memory, next_use use);
  const void* fetched(std::size_t index) const { return storages_[storage_of_fetch(index)].address; }
  bool needs(const value& source) const { return source.is_of(model_) && storage_of(source) != none; }
  void run(const stream& s, std::uint64_t number, const completion& done);
  std::size_t arena_bytes() const noexcept { return arena_.bytes(); }
  std::size_t kernel_count() const noexcept { return steps_.size(); }

private:
  /// None of a value that the program does not need, nor of one that was added after it was compiled.
  std::size_t storage_of(const value& v) const {
    return v.node() < storage_of_.size() && v.output() < storage_of_[v.node()].size()
               ? storage_of_[v.node()][v.output()]
               : none;
  }
  std::size_t storage_of_fetch(std::size_t index) const;
  void place_given(std::span<const value> given);
  void place_nodes(std::span<const value> fetches);
  void place_node(std::uint32_t id);
  void place_operation(std::uint32_t id, const operation& op);
  void place_run(const fused_run& run);
  void place_step(std::unique_ptr<executable> work, std::span<const value> inputs,
                  std::span<const value> outputs, std::optional<std::size_t> overwrites);
  std::string in_words(std::uint32_t node) const;
  void place_fetches(std::span<const value> fetches);
  void share_memory();
  bool may_overwrite(const step& s, std::size_t position, std::size_t input) const;
  void resolve(std::size_t& s) const;
  void find_only_steps();
  void plan();
  void link();
  static void move(storage& s, const void* memory);

  const graph& model_;
  std::vector<char> needed_;
  std::vector<std::vector<std::size_t>> storage_of_; ///< by node and output
  std::vector<storage> storages_;
  std::vector<std::size_t> merged_into_; ///< by storage: itself, or the one it shares memory with
  std::vector<std::optional<std::size_t>> overwrites_; ///< by step
  std::vector<step> steps_;
  std::vector<std::size_t> fetch_storage_;
  block arena_;
  void* scratch_ = nullptr;
};

program::implementation::implementation(const graph& model, std::span<const value> fetches,
                                        std::span<const value> given)
    : model_(model) {
  for (const value& v : fetches)
    if (!model.has(v)) throw graph_error("compile: a fetched value belongs to another graph");
  for (const value& v : given)
    if (!model.has(v)) throw graph_error("compile: a given value belongs to another graph");
  for (const node& n : model.nodes()) storage_of_.emplace_back(n.outputs.size(), none);
  place_given(given);
  needed_ = needed_for(model, fetches, given);
  place_nodes(fetches);
  place_fetches(fetches);
  share_memory();
  find_only_steps();
  plan();
  link();
}

void program::implementation::place_given(std::span<const value> given) {
  for (const value& v : given) {
    storage s;
    s.where = storage::place::source;
    s.bytes = bytes_of(v.type());
    s.name = "the output of node " + std::to_string(v.node());
    storage_of_[v.node()][v.output()] = storages_.size();
    storages_.push_back(std::move(s));
  }
}

/// A fused run stands where its last node did.
void program::implementation::place_nodes(std::span<const value> fetches) {
  const std::vector<fused_run> runs = find_fused_runs(model_, needed_, fetches);
  std::vector<const fused_run*> run_of(model_.nodes().size());
  for (const fused_run& run : runs)
    for (const std::uint32_t id : run.nodes) run_of[id] = &run;
  for (std::uint32_t id = 0; id < model_.nodes().size(); ++id) {
    if (!needed_[id]) continue;
    if (!run_of[id])
      place_node(id);
    else if (run_of[id]->nodes.back() == id)
      place_run(*run_of[id]);
  }
}

void program::implementation::place_node(std::uint32_t id) {
  const node& n = model_.nodes()[id];
  if (const auto* op = std::get_if<operation_node>(&n.what)) return place_operation(id, **op);
  storage s;
  s.bytes = bytes_of(n.outputs[0]);
  s.name = n.name;
  s.where = storage::place::source;
  if (const auto* fixed = std::get_if<constant_node>(&n.what)) {
    s.where = storage::place::constant;
    s.address = fixed->values->data();
  }
  storage_of_[id][0] = storages_.size();
  storages_.push_back(std::move(s));
}

void program::implementation::place_operation(std::uint32_t id, const operation& op) {
  const node& n = model_.nodes()[id];
  if (op.is_view()) {
    if (n.inputs.empty() || bytes_of(n.inputs[0].type()) != bytes_of(n.outputs[0]))
      throw graph_error(in_words(id) + " is a view of memory that is not as long as its result");
    storage_of_[id][0] = storage_of(n.inputs[0]);
    return;
  }
  std::vector<value_type> types;
  for (const value& v : n.inputs) types.push_back(v.type());
  std::vector<value> outputs;
  for (std::uint32_t i = 0; i < n.outputs.size(); ++i)
    outputs.emplace_back(const_cast<graph&>(model_), id, i); // a handle, not access
  auto work = op.prepare(types, n.outputs);
  if (!work) throw graph_error(in_words(id) + " has nothing to run");
  place_step(std::move(work), n.inputs, outputs, op.overwrites());
}

void program::implementation::place_run(const fused_run& run) {
  const std::size_t n = run.outputs.front().dims().size();
  place_step(make_executable(run.chain, n), run.inputs, run.outputs, run.overwrites);
}

void program::implementation::place_step(std::unique_ptr<executable> work, std::span<const value> inputs,
                                         std::span<const value> outputs,
                                         std::optional<std::size_t> overwrites) {
  step made;
  made.work = std::move(work);
  made.words = in_words(outputs.front().node());
  for (const value& v : inputs) {
    made.input_storage.push_back(storage_of(v));
    storages_[storage_of(v)].last = steps_.size();
  }
  for (const value& v : outputs) {
    storage s;
    s.bytes = bytes_of(v.type());
    s.first = s.last = steps_.size();
    storage_of_[v.node()][v.output()] = storages_.size();
    made.output_storage.push_back(storages_.size());
    storages_.push_back(std::move(s));
  }
  overwrites_.push_back(overwrites);
  steps_.push_back(std::move(made));
}

void program::implementation::place_fetches(std::span<const value> fetches) {
  for (std::size_t i = 0; i < fetches.size(); ++i) {
    std::size_t s = storage_of(fetches[i]);
    if (storages_[s].where != storage::place::arena || storages_[s].fetch != none) {
      storages_[s].last = steps_.size();
      storage copy;
      copy.bytes = storages_[s].bytes;
      copy.first = steps_.size();
      step made;
      made.work = std::make_unique<copy_executable>(copy.bytes);
      made.input_storage = {s};
      made.output_storage = {s = storages_.size()};
      steps_.push_back(std::move(made));
      overwrites_.emplace_back();
      storages_.push_back(std::move(copy));
    }
    storages_[s].fetch = i;
    fetch_storage_.push_back(s);
  }
  for (const std::size_t s : fetch_storage_) storages_[s].last = steps_.size();
}

/// Where an operation may overwrite an input that nobody reads afterwards, its output moves in there.
void program::implementation::share_memory() {
  for (std::size_t s = 0; s < storages_.size(); ++s) merged_into_.push_back(s);
  for (std::size_t position = 0; position < steps_.size(); ++position) {
    const auto input = overwrites_[position];
    if (!input || *input >= steps_[position].input_storage.size() ||
        !may_overwrite(steps_[position], position, *input))
      continue;
    const std::size_t output = steps_[position].output_storage[0];
    std::size_t target = steps_[position].input_storage[*input];
    resolve(target);
    merged_into_[output] = target;
    storages_[target].last = std::max(storages_[target].last, storages_[output].last);
    storages_[target].fetch = storages_[output].fetch;
  }
  for (step& s : steps_) {
    for (std::size_t& used : s.input_storage) resolve(used);
    for (std::size_t& used : s.output_storage) resolve(used);
  }
  for (std::size_t& used : fetch_storage_) resolve(used);
}

bool program::implementation::may_overwrite(const step& s, std::size_t position, std::size_t input) const {
  std::size_t target = s.input_storage[input];
  resolve(target);
  const storage& memory = storages_[target];
  const auto uses = std::ranges::count_if(s.input_storage, [&](std::size_t other) {
    resolve(other);
    return other == target;
  });
  return uses == 1 && memory.where == storage::place::arena && memory.fetch == none &&
         memory.last == position && memory.bytes == storages_[s.output_storage[0]].bytes;
}

void program::implementation::resolve(std::size_t& s) const {
  while (merged_into_[s] != s) s = merged_into_[s];
}

/// What one step writes and none reads is for the caller alone.
void program::implementation::find_only_steps() {
  std::vector<std::size_t> touched(storages_.size());
  for (const step& s : steps_) {
    for (const std::size_t used : s.input_storage) ++touched[used];
    for (const std::size_t used : s.output_storage) ++touched[used];
  }
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const std::vector<std::size_t>& outputs = steps_[i].output_storage;
    if (outputs.size() == 1 && touched[outputs[0]] == 1) storages_[outputs[0]].only_step = i;
  }
}

void program::implementation::plan() {
  std::vector<lifetime> lifetimes;
  std::vector<std::size_t> owners;
  for (std::size_t s = 0; s < storages_.size(); ++s) {
    if (storages_[s].where != storage::place::arena || merged_into_[s] != s) continue;
    lifetimes.push_back({storages_[s].bytes, storages_[s].first, storages_[s].last});
    owners.push_back(s);
  }
  std::size_t scratch = 0;
  for (const step& s : steps_) scratch = std::max(scratch, s.work->scratch_bytes());
  const memory_plan placed = plan_memory(lifetimes);
  arena_ = block(placed.bytes + aligned(scratch));
  scratch_ = arena_.data() + placed.bytes;
  for (std::size_t i = 0; i < owners.size(); ++i)
    storages_[owners[i]].address = arena_.data() + placed.offsets[i];
}

void program::implementation::link() {
  for (step& s : steps_) {
    s.inputs.resize(s.input_storage.size());
    s.outputs.resize(s.output_storage.size());
    for (std::size_t i = 0; i < s.inputs.size(); ++i)
      storages_[s.input_storage[i]].uses.push_back(&s.inputs[i]);
    for (std::size_t i = 0; i < s.outputs.size(); ++i)
      storages_[s.output_storage[i]].uses.push_back(const_cast<const void**>(&s.outputs[i]));
  }
  for (storage& s : storages_) move(s, s.address);
}

std::size_t program::implementation::storage_of_fetch(std::size_t index) const {
  if (index < fetch_storage_.size()) return fetch_storage_[index];
  throw std::invalid_argument("program: there is no fetch " + std::to_string(index) + "; it has " +
                              std::to_string(fetch_storage_.size()));
}

/// "models.cpp:12: gather"
std::string program::implementation::in_words(std::uint32_t node) const {
  const auto& n = model_.nodes()[node];
  const auto* op = std::get_if<operation_node>(&n.what);
  return line_of(n.where) + ": " + (op ? std::string((*op)->name()) : n.name);
}

void program::implementation::bind_fetch(std::size_t index, void* memory, next_use use) {
  storage& s = storages_[storage_of_fetch(index)];
  if (memory == nullptr && s.bytes != 0)
    throw std::invalid_argument("program: fetch " + std::to_string(index) + " of " + std::to_string(s.bytes) +
                                " bytes is bound to no memory");
  move(s, memory);
  if (s.only_step != none) steps_[s.only_step].output_use = use;
}

void program::implementation::move(storage& s, const void* memory) {
  s.address = memory;
  for (const void** use : s.uses) *use = memory;
}

void program::implementation::run(const stream& where, std::uint64_t number, const completion& done) {
  for (const storage& s : storages_)
    if (s.where == storage::place::source && s.bytes != 0 && s.address == nullptr)
      throw std::logic_error("program: nothing is bound to '" + s.name + "'");
  const step* running = nullptr;
  try {
    for (step& s : steps_) {
      running = &s;
      s.work->run(where, {s.inputs, s.outputs, scratch_, number, s.output_use});
    }
  } catch (const std::out_of_range& e) {
    throw std::out_of_range(running->words + ": " + e.what());
  }
  if (done) done();
}

program::program(const graph& model, std::span<const value> fetches, std::span<const value> given)
    : self_(std::make_unique<implementation>(model, fetches, given)) {}
program::~program() = default;
program::program(program&&) noexcept = default;
program& program::operator=(program&&) noexcept = default;

void program::bind(const value& source, const void* memory) { self_->bind(source, memory); }
void program::bind_fetch(std::size_t index, void* memory, next_use use) {
  self_->bind_fetch(index, memory, use);
}
const void* program::fetched(std::size_t index) const { return self_->fetched(index); }
bool program::needs(const value& source) const { return self_->needs(source); }
void program::run(const stream& s, std::uint64_t step, const completion& done) { self_->run(s, step, done); }
std::size_t program::arena_bytes() const noexcept { return self_->arena_bytes(); }
std::size_t program::kernel_count() const noexcept { return self_->kernel_count(); }

} // namespace mailgrad
