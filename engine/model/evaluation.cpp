#include <mailgrad/engine/model/evaluation.hpp>

#include <mailgrad/engine/model/data_request.hpp>
#include <mailgrad/kernels/softmax.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

namespace mailgrad {

namespace {

/// With more classes nobody reads the matrix, and it takes more memory than the weights.
constexpr std::size_t most_confused = 1024;

bool counts_confusion(const model_request& r) {
  return r.wanted == answer::a_class && r.features != feature_kind::tokens && r.classes <= most_confused;
}

struct score {
  bool answers_alike = false; ///< whatever the sample
  std::size_t labels = 0;
  std::size_t correct = 0;
  double squares = 0; ///< of the distances to the targets
  std::size_t samples = 0;
  double loss = 0;                      ///< sum over the samples
  std::vector<std::uint64_t> confusion; ///< as in evaluation; empty: not counted
};

void count_answers(std::span<const float> logits, const batch& inputs, std::size_t classes, score& sum) {
  const auto labels = inputs.labels.values<std::int32_t>();
  std::int32_t right = 0;
  count_right_labels(host_stream{}, logits.data(), labels.data(), &right, labels.size(), classes);
  sum.correct += static_cast<std::size_t>(right);
  if (sum.confusion.empty()) return;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::span row = logits.subspan(i * classes, classes);
    const auto answer = std::ranges::max_element(row) - row.begin();
    ++sum.confusion[static_cast<std::size_t>(labels[i]) * classes + static_cast<std::size_t>(answer)];
  }
}

void add_distances(std::span<const float> answers, const batch& inputs, score& sum) {
  const auto targets = inputs.labels.values();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const double distance = static_cast<double>(answers[i]) - static_cast<double>(targets[i]);
    sum.squares += distance * distance;
  }
}

/// Adds the score of these samples to `sum`.
void add_score(forward_pass& pass, const weight_addresses& weights, const dataset& samples,
               std::span<const std::uint32_t> which, std::size_t classes, score& sum) {
  const std::span<const float> logits = pass.run(weights, samples, which);
  sum.answers_alike = !pass.reads_samples();
  if (samples.has_targets())
    add_distances(logits, pass.inputs(), sum);
  else
    count_answers(logits, pass.inputs(), classes, sum);
  sum.labels += pass.inputs().labels.size();
  sum.samples += which.size();
  sum.loss += static_cast<double>(pass.loss()) * static_cast<double>(which.size());
}

/// The samples with arbitrary labels, because a model has an input for labels even when it predicts.
dataset with_any_answers(const named_arrays& samples, const model_request& request) {
  const std::size_t n = samples.samples();
  if (request.wanted == answer::a_class)
    return dataset::from(samples, {{n}, std::vector<std::int32_t>(n)}, request.classes);
  if (request.target_dims.rank() == 0) return dataset::from(samples, {{n}, std::vector<float>(n)});
  const shape dims{n, request.outputs()};
  return dataset::from(samples, {dims, std::vector<float>(dims.size())});
}

} // namespace

std::vector<float> predict(const model_function& build, const model_request& request,
                           const parameter_layout& layout, std::span<const float> parameters,
                           const named_arrays& samples) {
  if (request.features == feature_kind::tokens)
    throw std::invalid_argument("predict: the model reads tokens, and arrays hold none");
  return predict(build, request, layout, parameters, with_any_answers(samples, request));
}

std::vector<float> predict(const model_function& build, const model_request& request,
                           const parameter_layout& layout, std::span<const float> parameters,
                           const dataset& samples) {
  tested_model model(build, request, layout);
  model.use("predict", parameters);
  return predict(model, samples);
}

std::vector<float> predict(tested_model& model, const dataset& all) {
  require_readable(model.request(), all);
  const std::size_t at_once = model.samples_at_once();
  std::vector<float> answers;
  answers.reserve(all.size() * model.request().outputs());
  std::vector<std::uint32_t> which;
  forward_pass* pass = nullptr;
  for (std::size_t first = 0; first < all.size(); first += at_once) {
    const std::size_t count = std::min(at_once, all.size() - first);
    if (which.size() != count) pass = &model.pass_over(all, count, false);
    which.resize(count);
    std::iota(which.begin(), which.end(), static_cast<std::uint32_t>(first));
    const auto logits = pass->run(model.weights(), all, which);
    answers.insert(answers.end(), logits.begin(), logits.end());
  }
  return answers;
}

evaluation evaluate(const model_function& build, model_request request, const parameter_layout& layout,
                    std::span<const float> parameters, const dataset& samples,
                    const std::function<bool()>& stop) {
  tested_model model(build, std::move(request), layout);
  model.use("evaluate", parameters);
  return evaluate(model, samples, stop);
}

evaluation evaluate(tested_model& model, const dataset& samples, const std::function<bool()>& stop) {
  const model_request& request = model.request();
  require_readable(request, samples);
  std::vector<std::uint32_t> order(samples.size());
  std::iota(order.begin(), order.end(), 0U);
  score sum;
  if (counts_confusion(request)) sum.confusion.resize(request.classes * request.classes);
  const std::size_t at_once = model.samples_at_once();
  forward_pass* pass = nullptr;
  std::span<const std::uint32_t> which;
  for (std::size_t i = 0; i < order.size() && !(stop && stop()); i += at_once) {
    const std::size_t count = std::min(at_once, order.size() - i);
    if (which.size() != count) pass = &model.pass_over(samples, count, true);
    which = std::span<const std::uint32_t>(order).subspan(i, count);
    add_score(*pass, model.weights(), samples, which, request.classes, sum);
  }
  const auto mean = [](double total, std::size_t n) {
    return total / static_cast<double>(std::max<std::size_t>(1, n));
  };
  evaluation e;
  e.loss = mean(sum.loss, sum.samples);
  e.whole = sum.samples == samples.size();
  if (samples.has_targets())
    e.rmse = std::sqrt(mean(sum.squares, sum.labels));
  else if (!sum.answers_alike)
    e.accuracy = mean(static_cast<double>(sum.correct), sum.labels);
  if (!sum.answers_alike) e.confusion = std::move(sum.confusion);
  return e;
}

} // namespace mailgrad
