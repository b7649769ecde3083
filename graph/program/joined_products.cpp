#include <mailgrad/graph/program/joined_products.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace mailgrad {

namespace {

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

} // namespace

void join_products(program_plan& plan) {
  for (std::size_t i = 0; i < plan.steps.size();)
    if (!try_to_join(plan, i)) ++i;
}

} // namespace mailgrad
