#include <mailgrad/engine/plan/told_computers.hpp>

#include <mailgrad/engine/plan/resume.hpp>
#include <mailgrad/engine/plan/run_fingerprint.hpp>

#include <utility>

namespace mailgrad {

void take_computers(run_plan& plan, std::vector<worker_computer> told) {
  if (any_has_card(told)) plan.sums_apart = false;
  plan.options.elsewhere = std::move(told);
  if (plan.options.replay) require_same_run(*plan.options.replay, plan.options, facts_and_names(plan));
  if (plan.recorded_before) require_goes_on(*plan.recorded_before, plan);
  if (plan.resumed)
    plan.resumed->products_before = other_products(plan.resumed->card.facts, facts_and_names(plan));
}

} // namespace mailgrad
