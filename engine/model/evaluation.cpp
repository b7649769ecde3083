#include <mailgrad/engine/model/evaluation.hpp>

#include <mailgrad/engine/model/data_request.hpp>
#include <mailgrad/tensor/error.hpp>

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

/// A forward pass over some samples at a time.
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

  /// Adds what these samples score to `sum`.
  void add(const weight_addresses& weights, const dataset& samples, std::span<const std::uint32_t> which,
           score& sum) {
    fill_batch(samples, which, inputs_);
    model_->bind(inputs_, weights);
    model_->code().run(host_stream{}, 0, [] {});
    const auto* logits = static_cast<const float*>(model_->code().fetched(logits_fetch));
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

} // namespace

evaluation evaluate(const model_function& build, model_request request, const parameter_layout& layout,
                    std::span<const float> parameters, const dataset& samples,
                    const std::function<bool()>& stop) {
  if (parameters.size() != layout.size())
    throw shape_error("evaluate: " + std::to_string(parameters.size()) + " weights, where the layout has " +
                      std::to_string(layout.size()));
  require_readable(request, samples);
  weight_addresses weights(layout);
  for (std::uint32_t s = 0; s < layout.shard_count(); ++s)
    weights.use(s, parameters.data() + layout.shard(s).begin);

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
