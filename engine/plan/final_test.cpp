#include <mailgrad/engine/plan/final_test.hpp>

#include <mailgrad/engine/model/evaluation.hpp>
#include <mailgrad/engine/model/finite_weights.hpp>
#include <mailgrad/engine/model/text_sample.hpp>
#include <mailgrad/engine/plan/run_tester.hpp>

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

/// False if it was ended early.
bool test(training_report& r, const data_split& data, tested_model& model,
          const std::function<bool()>& stop) {
  if (data.validation.size() > 0) {
    const evaluation tested = evaluate(model, data.validation, stop);
    if (!tested.whole) return false;
    r.validation_loss = tested.loss;
    r.validation_accuracy = tested.accuracy;
    r.validation_rmse = tested.rmse;
  }
  if (data.test.size() > 0) {
    const evaluation tested = evaluate(model, data.test, stop);
    if (!tested.whole) return false;
    r.test_loss = tested.loss;
    r.test_accuracy = tested.accuracy;
    r.test_rmse = tested.rmse;
  }
  return true;
}

/// The whole test, where `model` is.
void test_and_write(training_report& r, const run_plan& plan, tested_model& model,
                    std::span<const float> weights, const std::function<bool()>& stop) {
  model.use("the test", weights);
  const bool whole = test(r, *plan.data, model, stop);
  if (plan.options.text.length > 0 && plan.data->train.is_tokens())
    r.sample = write_text(model, plan.data->class_names, plan.options.text);
  if (!whole && r.ended == "completed") add_reason(r, "the test was ended early");
}

} // namespace

void test_trained(training_report& r, const run_plan& plan, std::span<const float> weights,
                  const std::function<bool()>& stop) {
  if (weights.empty()) return;
  if (!r.best) require_finite(r, plan, weights);
  if (r.ended == "diverged" && !r.best) return;
  try {
    run_tester tester(plan.model, plan.request, plan.layout, card_for_tests(plan.options));
    const auto test = [&](tested_model& model) { test_and_write(r, plan, model, weights, stop); };
    while (!tester.try_with_model(test)) {
    }
    r.tested = tests_made{to_string(tester.card().value_or(device{})), tester.why_on_host()};
  } catch (const std::exception& e) {
    r.ended = "failed";
    add_reason(r, std::string("the test of the trained weights failed: ") + e.what());
  }
}

} // namespace mailgrad
