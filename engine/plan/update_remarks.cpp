#include <mailgrad/engine/plan/update_remarks.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace mailgrad {

namespace {

/// How many gradients so many steps make at most. Of local steps each worker pushes what is left over at the
/// end as a gradient of its own.
std::uint64_t most_gradients(std::uint64_t steps, const run_plan& plan) {
  const std::uint64_t each = plan.options.local_steps;
  if (each <= 1) return steps;
  return std::min(steps, (steps + each - 1) / each + std::max(plan.workers(), plan.options.seats));
}

} // namespace

std::vector<std::string> update_remarks(const run_plan& plan) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < plan.policies.size(); ++i) {
    const scheduled_policy& p = plan.policies[i];
    const std::uint64_t end = i + 1 < plan.policies.size() ? plan.policies[i + 1].from_step : plan.steps;
    const std::uint64_t gradients = most_gradients(end - std::min(end, p.from_step), plan);
    if (p.policy.gathers() > 1 && p.policy.gathers() > gradients)
      all.push_back(
          fmt::format("policy {}: an update is made of {} gradients or more, and all under it, {} at most, "
                      "are less, so they make one update, at its end",
                      p.policy.text(), p.policy.gathers(), gradients));
  }
  return all;
}

} // namespace mailgrad
