#include <mailgrad/engine/plan/recording_of_plan.hpp>

#include <algorithm>
#include <string_view>

namespace mailgrad {

recording_header recording_header_of(const run_plan& plan) {
  recording_header h{plan.workers(), plan.options.shards, facts_and_names(plan), plan.options.words,
                     plan.seats() > plan.workers() ? plan.seats() : 0};
  const recording* const before = plan.recorded_before.get();
  if (!before) return h;
  for (auto& [what, is] : h.facts) // a replay begins where the first process began
    if (what == first_weights_fact) is = told_fact(before->header.facts, what);
  if (plan.options.elsewhere && plan.options.elsewhere->empty()) // workers that come must be the same
    for (const std::string_view fact : {computers_fact, products_fact})
      if (tells(before->header.facts, fact))
        h.facts.emplace_back(fact, told_fact(before->header.facts, fact));
  return h;
}

/// Before there is a checkpoint it counts as four arrays, such as those of Adam and of a cure.
std::uint64_t room_beside_recording(const run_plan& plan, const checkpoint_account& so_far) {
  constexpr std::uint64_t reports = std::uint64_t{1} << 18, most = 4;
  const checkpoint_options& o = plan.options.checkpoints;
  const std::uint64_t weights = plan.layout->size() * sizeof(float);
  if (o.folder.empty()) return weights + reports;
  const std::uint64_t each = so_far.written > 0 ? so_far.bytes / so_far.written : 4 * weights;
  const std::uint64_t there = std::min<std::uint64_t>(so_far.written, o.keep);
  return weights + reports + std::min(most, o.keep - there + 1) * each;
}

} // namespace mailgrad
