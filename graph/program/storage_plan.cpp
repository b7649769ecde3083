#include <mailgrad/graph/program/memory_plan.hpp>
#include <mailgrad/graph/program/program_plan.hpp>

#include <algorithm>
#include <numeric>

namespace mailgrad {

namespace {

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

} // namespace

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

} // namespace mailgrad
