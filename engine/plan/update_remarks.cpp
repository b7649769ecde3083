#include <mailgrad/engine/plan/update_remarks.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace mailgrad {

std::vector<std::string> update_remarks(const run_plan& plan) {
  std::vector<std::string> all;
  const std::uint64_t each = std::max<std::uint64_t>(1, plan.options.local_steps);
  for (std::size_t i = 0; i < plan.policies.size(); ++i) {
    const scheduled_policy& p = plan.policies[i];
    const std::uint64_t end = i + 1 < plan.policies.size() ? plan.policies[i + 1].from_step : plan.steps;
    const std::uint64_t gradients = (end - std::min(end, p.from_step)) / each;
    if (p.policy.gathers() > gradients)
      all.push_back(
          fmt::format("policy {}: an update is made of {} gradients or more, and all {} of this run "
                      "are less, so they make one update, at the end",
                      p.policy.text(), p.policy.gathers(), gradients));
  }
  return all;
}

} // namespace mailgrad
