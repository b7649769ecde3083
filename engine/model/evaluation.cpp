#include <mailgrad/engine/model/evaluation.hpp>

#include <mailgrad/engine/model/data_request.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace mailgrad {

namespace {

constexpr std::size_t batch_size = 256;

constexpr std::size_t logits_fetch = 0;
constexpr std::size_t loss_fetch = 1;

struct score {
  std::size_t labels = 0;
  std::size_t correct = 0;
  double squares = 0; ///< of the distances to the targets
  std::size_t samples = 0;
  double loss = 0; ///< sum over the samples
};

/// Runs the forward pass over batches of one size.
class forward_pass {
public:
  forward_pass(const model_function& build, model_request request, const parameter_layout& layout,
               const dataset& samples, std::size_t size)
      : outputs_(request.outputs()) {
    request.batch = size;
    shape_batch(samples, size, room_for_entries(samples, size), inputs_);
    request.nonzeros = inputs_.columns.size();
    request.purpose = phase::evaluation;
    model_.emplace(build, request, layout, [](graph&, const model_outputs& outputs) {
      return std::vector{outputs.logits, outputs.loss};
    });
  }

  /// The logits of these samples, until the next call.
  std::span<const float> run(const weight_addresses& weights, const dataset& samples,
                             std::span<const std::uint32_t> which) {
    fill_batch(samples, which, inputs_);
    model_->bind(inputs_, weights);
    model_->code().run(host_stream{}, 0, [] {});
    return {static_cast<const float*>(model_->code().fetched(logits_fetch)), inputs_.size * outputs_};
  }

  /// Adds the score of these samples to `sum`.
  void add(const weight_addresses& weights, const dataset& samples, std::span<const std::uint32_t> which,
           score& sum) {
    const float* logits = run(weights, samples, which).data();
    if (samples.has_targets())
      add_distances(logits, sum);
    else
      count_correct(logits, sum);
    sum.labels += inputs_.labels.size();
    sum.samples += which.size();
    const auto loss = static_cast<double>(*static_cast<const float*>(model_->code().fetched(loss_fetch)));
    sum.loss += loss * static_cast<double>(which.size());
  }

private:
  void count_correct(const float* logits, score& sum) const {
    const auto labels = inputs_.labels.values<std::int32_t>();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const std::span row{logits + i * outputs_, outputs_};
      if (std::ranges::max_element(row) - row.begin() == labels[i]) ++sum.correct;
    }
  }

  void add_distances(const float* logits, score& sum) const {
    const auto targets = inputs_.labels.values();
    for (std::size_t i = 0; i < targets.size(); ++i) {
      const double distance = static_cast<double>(logits[i]) - static_cast<double>(targets[i]);
      sum.squares += distance * distance;
    }
  }

  std::size_t outputs_; ///< of a sample or token
  batch inputs_;
  std::optional<bound_model> model_;
};

weight_addresses addresses_of(const char* caller, std::span<const float> parameters,
                              const parameter_layout& layout) {
  if (parameters.size() != layout.size())
    throw shape_error(
        fmt::format("{}: {} weights, where the layout has {}", caller, parameters.size(), layout.size()));
  weight_addresses weights(layout);
  for (std::uint32_t s = 0; s < layout.shard_count(); ++s)
    weights.use(s, parameters.data() + layout.shard(s).begin);
  return weights;
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
  const weight_addresses weights = addresses_of("predict", parameters, layout);
  const dataset all = with_any_answers(samples, request);
  require_readable(request, all);
  std::vector<float> answers;
  answers.reserve(all.size() * request.outputs());
  std::optional<forward_pass> pass;
  std::vector<std::uint32_t> which;
  for (std::size_t first = 0; first < all.size(); first += batch_size) {
    const std::size_t count = std::min(batch_size, all.size() - first);
    if (which.size() != count) pass.emplace(build, request, layout, all, count);
    which.resize(count);
    std::iota(which.begin(), which.end(), static_cast<std::uint32_t>(first));
    const auto logits = pass->run(weights, all, which);
    answers.insert(answers.end(), logits.begin(), logits.end());
  }
  return answers;
}

evaluation evaluate(const model_function& build, model_request request, const parameter_layout& layout,
                    std::span<const float> parameters, const dataset& samples,
                    const std::function<bool()>& stop) {
  const weight_addresses weights = addresses_of("evaluate", parameters, layout);
  require_readable(request, samples);
  std::vector<std::uint32_t> order(samples.size());
  std::iota(order.begin(), order.end(), 0U);
  score sum;
  const auto stopped = [&stop] { return stop && stop(); };
  const std::size_t whole = order.size() / batch_size * batch_size;
  if (whole > 0) {
    forward_pass pass(build, request, layout, samples, batch_size);
    for (std::size_t i = 0; i < whole && !stopped(); i += batch_size)
      pass.add(weights, samples, std::span(order).subspan(i, batch_size), sum);
  }
  if (whole < order.size() && !stopped()) {
    forward_pass pass(build, request, layout, samples, order.size() - whole);
    pass.add(weights, samples, std::span(order).subspan(whole), sum);
  }
  const auto mean = [](double total, std::size_t n) {
    return total / static_cast<double>(std::max<std::size_t>(1, n));
  };
  evaluation e;
  e.loss = mean(sum.loss, sum.samples);
  e.whole = sum.samples == samples.size();
  if (samples.has_targets())
    e.rmse = std::sqrt(mean(sum.squares, sum.labels));
  else
    e.accuracy = mean(static_cast<double>(sum.correct), sum.labels);
  return e;
}

} // namespace mailgrad
