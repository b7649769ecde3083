#include <mailgrad/engine/plan/rate_to_come.hpp>

#include <mailgrad/engine/checkpoint/kept_block.hpp>
#include <mailgrad/optim/schedule.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

namespace mailgrad {

namespace {

/// The updates by which the schedule counts.
std::uint64_t updates_in(const checkpoint& from) {
  std::uint64_t updates = 0;
  if (from.has(block_part)) from.part(block_part)->field("updates", updates);
  if (!from.has("shard 0")) return updates;
  std::uint64_t version = 0;
  const auto shard = from.part("shard 0");
  shard->group("shard", [&] { shard->field("version", version); });
  return std::max(updates, version);
}

} // namespace

std::string rate_to_come(const run_plan& plan, const resumed_run& resumed) {
  const learning_rate_schedule& schedule = plan.options.optimizer.schedule;
  const std::optional<std::uint64_t> last = last_step_above_zero(schedule);
  const std::uint64_t done = resumed.card.steps;
  if (!last || done == 0 || plan.steps <= done) return {};
  // Workers that take local steps count their own.
  const double updates = plan.options.local_steps > 0 ? static_cast<double>(done) / plan.workers()
                                                      : static_cast<double>(updates_in(*resumed.from));
  const double all = updates * static_cast<double>(plan.steps) / static_cast<double>(done);
  constexpr double much = 1.01; // the number of updates is known about so well
  if (all < much * static_cast<double>(*last)) return {};
  return fmt::format(
      "the learning rate is 0 after {} updates by --schedule {}, and this run goes on to about "
      "{:.0f}: to learn more, save its weights and begin a run by --load with another schedule",
      *last, to_string(schedule), all);
}

} // namespace mailgrad
