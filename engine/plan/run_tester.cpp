#include <mailgrad/engine/plan/run_tester.hpp>

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <tuple>

namespace mailgrad {

namespace {

std::string in_words(const parameter_layout& layout, std::size_t variable, std::size_t index, float weight) {
  const auto pieces = layout.pieces(variable);
  const auto piece = std::ranges::find_if(pieces, [&](const variable_piece& p) {
    return index >= p.offset_in_variable && index < p.offset_in_variable + p.length;
  });
  const char* const found = std::isnan(weight) ? "nan" : weight < 0 ? "-inf" : "inf";
  return fmt::format("weight {} of '{}' on shard {} is {}", index, layout.variables()[variable].name,
                     piece->shard, found);
}

void require_finite(training_report& r, const run_plan& plan, std::span<const float> weights) {
  const std::optional<std::string> found = format_not_finite(*plan.layout, weights);
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

/// False if it was ended early. A GPU that has failed half-way has left figures, which do not stay.
bool test(training_report& r, const data_split& data, tested_model& model,
          const std::function<bool()>& stop) {
  for (std::optional<double>* figure : {&r.validation_loss, &r.validation_accuracy, &r.validation_rmse,
                                        &r.test_loss, &r.test_accuracy, &r.test_rmse})
    figure->reset();
  const auto measure = [&](const dataset& samples, auto& loss, auto& accuracy, auto& rmse) {
    if (samples.size() == 0) return true;
    const evaluation tested = evaluate(model, samples, stop);
    if (tested.whole) std::tie(loss, accuracy, rmse) = std::tie(tested.loss, tested.accuracy, tested.rmse);
    return tested.whole;
  };
  return measure(data.validation, r.validation_loss, r.validation_accuracy, r.validation_rmse) &&
         measure(data.test, r.test_loss, r.test_accuracy, r.test_rmse);
}

void test_on(run_tester& tester, training_report& r, const run_plan& plan, std::span<const float> weights,
             const std::function<bool()>& stop) {
  bool whole = false;
  tester.with_model([&](tested_model& model) {
    model.use("the test", weights);
    whole = test(r, *plan.data, model, stop);
  });
  r.tested = tests_made{to_string(tester.gpu().value_or(device{})), tester.why_on_host()};
  if (!whole && r.ended == "completed") r.add_reason("the test was ended early");
}

/// By itself, so that a text for which a GPU lacks memory does not repeat the test.
void write_on(run_tester& tester, training_report& r, const run_plan& plan, std::span<const float> weights) {
  const bool begun_on_gpu = tester.gpu().has_value();
  tester.with_model([&](tested_model& model) {
    model.use("the text", weights);
    r.sample = write_text(model, plan.data->class_names, plan.options.text);
  });
  if (begun_on_gpu) r.tested->text_on_host = tester.why_on_host();
}

} // namespace

std::optional<std::string> format_not_finite(const parameter_layout& layout, std::span<const float> weights) {
  if (weights.size() != layout.size())
    throw shape_error("format_not_finite", shape{weights.size()}, shape{layout.size()});
  for (std::size_t v = 0; v < layout.variables().size(); ++v) {
    const placed_variable& variable = layout.variables()[v];
    const auto values = weights.subspan(variable.offset, variable.dims.size());
    const auto bad = std::ranges::find_if_not(values, [](float w) { return std::isfinite(w); });
    if (bad != values.end()) return in_words(layout, v, static_cast<std::size_t>(bad - values.begin()), *bad);
  }
  return std::nullopt;
}

std::optional<device> gpu_for_tests(const training_options& o) {
  if (o.elsewhere) return std::nullopt;
  for (const std::vector<device>* all : {&o.parameters, &o.devices})
    if (const auto gpu = std::ranges::find(*all, device_kind::cuda, &device::kind); gpu != all->end())
      return device{device_kind::cuda, gpu->index};
  return std::nullopt;
}

run_tester::run_tester(model_function build, model_request request,
                       std::shared_ptr<const parameter_layout> layout, std::optional<device> gpu)
    : build_(std::move(build)), request_(std::move(request)), layout_(std::move(layout)), gpu_(gpu) {}

bool run_tester::try_with_model(const std::function<void(tested_model&)>& test) {
  try {
    test(here());
    return true;
  } catch (const device_error& e) {
    if (!leave_gpu(e.what())) throw;
  } catch (const graph_error& e) {
    if (!leave_gpu(e.what())) throw;
  }
  return false;
}

void run_tester::with_model(const std::function<void(tested_model&)>& test) {
  if (!try_with_model(test)) try_with_model(test);
}

bool run_tester::leave_gpu(const char* why) {
  if (!gpu_) return false;
  why_on_host_ = why;
  gpu_.reset();
  model_.reset();
  return true;
}

void test_trained(training_report& r, const run_plan& plan, std::span<const float> weights,
                  const std::function<bool()>& stop) {
  if (weights.empty()) return;
  if (!r.best) require_finite(r, plan, weights);
  if (r.ended == "diverged" && !r.best) return;
  const char* what = "the test of the trained weights";
  try {
    run_tester tester(plan.model, plan.request, plan.layout, gpu_for_tests(plan.options));
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
