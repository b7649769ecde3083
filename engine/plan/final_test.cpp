#include <mailgrad/engine/plan/final_test.hpp>

#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/model/finite_weights.hpp>
#include <mailgrad/engine/model/text_sample.hpp>

#include <fmt/format.h>

#include <exception>
#include <optional>
#include <string>

namespace mailgrad {

namespace {

void add_reason(training_report& r, const std::string& why) { r.why += (r.why.empty() ? "" : "; ") + why; }

void require_finite(training_report& r, const run_plan& plan, std::span<const float> weights) {
  const std::optional<std::string> found = not_finite_in_words(*plan.layout, weights);
  if (!found) return;
  if (r.ended != "failed") r.ended = "diverged";
  const std::string outer =
      plan.options.local_steps > 0 ? fmt::format(" and '{}'", r.outer_optimizer) : std::string();
  add_reason(r, fmt::format("{} after {} updates by rule '{}'{}", *found, r.updates, r.optimizer, outer));
}

evaluation test_on(const run_plan& plan, const dataset& samples, std::span<const float> weights,
                   const std::function<bool()>& stop) {
  return evaluate(plan.model, plan.request, *plan.layout, weights, samples, stop);
}

/// False if it was ended early.
bool test(training_report& r, const run_plan& plan, std::span<const float> weights,
          const std::function<bool()>& stop) {
  if (plan.data->validation.size() > 0) {
    const evaluation tested = test_on(plan, plan.data->validation, weights, stop);
    if (!tested.whole) return false;
    r.validation_loss = tested.loss;
    r.validation_accuracy = tested.accuracy;
    r.validation_rmse = tested.rmse;
  }
  if (plan.data->test.size() > 0) {
    const evaluation tested = test_on(plan, plan.data->test, weights, stop);
    if (!tested.whole) return false;
    r.test_loss = tested.loss;
    r.test_accuracy = tested.accuracy;
    r.test_rmse = tested.rmse;
  }
  return true;
}

} // namespace

void test_trained(training_report& r, const run_plan& plan, std::span<const float> weights,
                  const std::function<bool()>& stop) {
  if (weights.empty()) return;
  if (!r.best) require_finite(r, plan, weights);
  if (r.ended == "diverged" && !r.best) return;
  try {
    if (!test(r, plan, weights, stop) && r.ended == "completed") add_reason(r, "the test was ended early");
    if (plan.options.text.length > 0 && plan.data->train.is_tokens())
      r.sample = write_text(plan.model, plan.request, *plan.layout, weights, plan.data->class_names,
                            plan.options.text);
  } catch (const std::exception& e) {
    r.ended = "failed";
    add_reason(r, std::string("the test of the trained weights failed: ") + e.what());
  }
}

} // namespace mailgrad
