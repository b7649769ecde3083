#include <mailgrad/engine/plan/final_test.hpp>

#include <mailgrad/engine/account/divergence.hpp>
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

void require_finite(training_report& r, const run_plan& plan, std::span<const float> weights) {
  const std::optional<std::string> found = not_finite_in_words(*plan.layout, weights);
  if (!found) return;
  if (r.ended != "failed") r.ended = "diverged";
  const std::string outer =
      plan.options.local_steps > 0 ? fmt::format(" and '{}'", r.outer_optimizer) : std::string();
  r.add_reason(fmt::format("{} after {} updates by rule '{}'{}", *found, r.updates, r.optimizer, outer));
}

/// The loss that says most is judged: of the samples held out, of the test, or of the last steps.
void require_sense(training_report& r) {
  if (r.best || r.ended == "diverged") return;
  const auto judge = [&r](const char* whose, double loss) {
    const std::string why = ended_in_nonsense(whose, loss, r.nonsense_above);
    if (why.empty()) return;
    if (r.ended != "failed") r.ended = "diverged";
    r.add_reason(why);
  };
  if (r.validation_loss)
    judge("the samples held out", *r.validation_loss);
  else if (r.test_loss)
    judge("the test", *r.test_loss);
  else if (r.last_loss)
    judge("the last step", *r.last_loss);
}

/// False if it was ended early. A card that has failed half-way has left figures, which do not stay.
bool test(training_report& r, const data_split& data, tested_model& model,
          const std::function<bool()>& stop) {
  for (std::optional<double>* figure : {&r.validation_loss, &r.validation_accuracy, &r.validation_rmse,
                                        &r.test_loss, &r.test_accuracy, &r.test_rmse})
    figure->reset();
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

void test_on(run_tester& tester, training_report& r, const run_plan& plan, std::span<const float> weights,
             const std::function<bool()>& stop) {
  bool whole = false;
  tester.with_model([&](tested_model& model) {
    model.use("the test", weights);
    whole = test(r, *plan.data, model, stop);
  });
  r.tested = tests_made{to_string(tester.card().value_or(device{})), tester.why_on_host()};
  if (!whole && r.ended == "completed") r.add_reason("the test was ended early");
}

/// By itself, so that a text for which a card lacks memory does not repeat the test.
void write_on(run_tester& tester, training_report& r, const run_plan& plan, std::span<const float> weights) {
  const bool begun_on_card = tester.card().has_value();
  tester.with_model([&](tested_model& model) {
    model.use("the text", weights);
    r.sample = write_text(model, plan.data->class_names, plan.options.text);
  });
  if (begun_on_card) r.tested->text_on_host = tester.why_on_host();
}

} // namespace

void test_trained(training_report& r, const run_plan& plan, std::span<const float> weights,
                  const std::function<bool()>& stop) {
  if (weights.empty()) return;
  if (!r.best) require_finite(r, plan, weights);
  if (r.ended == "diverged" && !r.best) return;
  const char* what = "the test of the trained weights";
  try {
    run_tester tester(plan.model, plan.request, plan.layout, card_for_tests(plan.options));
    test_on(tester, r, plan, weights, stop);
    require_sense(r);
    if (r.ended == "diverged") return;
    what = "the text of the trained weights";
    if (plan.options.text.length > 0 && plan.data->train.is_tokens()) write_on(tester, r, plan, weights);
  } catch (const std::exception& e) {
    r.ended = "failed";
    r.add_reason(fmt::format("{} failed: {}", what, e.what()));
  }
}

} // namespace mailgrad
