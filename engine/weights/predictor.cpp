#include <mailgrad/engine/weights/predictor.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace mailgrad {

namespace {

/// The most samples of one program. More are answered in several runs.
constexpr std::size_t most_at_once = 256;

} // namespace

/// A program for some samples, bound to memory that is filled anew for each run.
struct predictor::pass {
  batch inputs;
  placed_model model;

  pass(tested_model& of, model_request request, std::size_t size)
      : model(
            of.build(), sized(request, size), of.layout(),
            [](graph&, const model_outputs& outputs) { return std::vector{outputs.logits}; }, of.place()) {
    std::vector<std::size_t> dims{size};
    dims.insert(dims.end(), request.sample_dims.begin(), request.sample_dims.end());
    inputs.size = size;
    inputs.features = tensor(shape(dims));
    inputs.labels = labels_for(request, size);
  }

  static const model_request& sized(model_request& request, std::size_t size) {
    request.batch = size;
    request.purpose = phase::evaluation;
    request.inputs.clear(); // the only one is "features", which a batch has by itself
    return request;
  }

  /// A model has an input for labels even when it predicts.
  static tensor labels_for(const model_request& request, std::size_t size) {
    if (request.wanted == answer::a_class) return tensor({size}, dtype::int32);
    std::vector<std::size_t> dims{size};
    dims.insert(dims.end(), request.target_dims.begin(), request.target_dims.end());
    return tensor(shape(dims));
  }
};

predictor::predictor(const saved_weights& trained, device place)
    : predictor(model_of(trained), trained, place) {}

predictor::predictor(model_function model, const saved_weights& trained, device place)
    : card_(card_of(trained)) {
  layout_ = std::make_shared<const parameter_layout>(lay_out(model, card_.request, 1));
  weights_fit found = fit(trained, *layout_, std::vector<float>(layout_->size()));
  require_whole(trained, found);
  parameters_ = std::move(found.parameters);
  model_ = std::make_unique<tested_model>(std::move(model), card_.request, *layout_, place);
  model_->use("predictor", parameters_);
}

predictor::~predictor() = default;
predictor::predictor(predictor&&) noexcept = default;

std::size_t predictor::inputs() const noexcept {
  const model_request& r = card_.request;
  const bool others = r.nonzeros > 0 || !r.categories.empty() || r.inputs.size() > 1;
  return r.features == feature_kind::numbers && !others ? r.sample_dims.size() : 0;
}

predictor::pass& predictor::pass_for(std::size_t samples) {
  std::unique_ptr<pass>& known = passes_[samples];
  if (!known)
    known = naming_memory([samples] { return fmt::format("the values and inputs of {} samples", samples); },
                          [&] {
                            return model_->with_room(
                                [&] { return std::make_unique<pass>(*model_, card_.request, samples); });
                          });
  return *known;
}

void predictor::require_numbers(std::span<const float> samples, std::span<const float> answers) const {
  if (inputs() == 0)
    throw std::invalid_argument("predictor: the model does not read plain numbers; give it a data set");
  if (samples.size() % inputs() != 0)
    throw std::invalid_argument(
        fmt::format("predictor: {} numbers, where a sample has {}", samples.size(), inputs()));
  const std::size_t needed = samples.size() / inputs() * outputs();
  if (answers.size() != needed)
    throw std::invalid_argument(
        fmt::format("predictor: room for {} numbers, where the answers have {}", answers.size(), needed));
}

void predictor::answers(std::span<const float> samples, std::span<float> answers) {
  require_numbers(samples, answers);
  const std::size_t each = inputs();
  const std::vector<float>& by = card_.divisors;
  while (!samples.empty()) {
    const std::size_t count = std::min(samples.size() / each, most_at_once);
    pass& p = pass_for(count);
    const std::span<float> features = p.inputs.features.values();
    if (by.size() == each)
      for (std::size_t i = 0; i < features.size(); ++i) features[i] = samples[i] / by[i % each];
    else
      std::ranges::transform(samples.first(features.size()), features.begin(),
                             [d = by.empty() ? 1.0F : by.front()](float v) { return v / d; });
    p.model.run(p.inputs, model_->weights());
    std::copy_n(p.model.fetched(0), count * outputs(), answers.begin());
    samples = samples.subspan(count * each);
    answers = answers.subspan(count * outputs());
  }
}

void predictor::probabilities(std::span<const float> samples, std::span<float> chances) {
  if (card_.request.wanted != answer::a_class)
    throw std::invalid_argument("predictor: the model predicts numbers, which have no probabilities");
  answers(samples, chances);
  softmax_rows(chances, outputs());
}

evaluation predictor::test(const dataset& samples, const std::function<bool()>& stop) {
  return evaluate(*model_, samples, stop);
}

void softmax_rows(std::span<float> values, std::size_t classes) {
  for (; values.size() >= classes && classes > 0; values = values.subspan(classes)) {
    const std::span<float> row = values.first(classes);
    const float largest = std::ranges::max(row);
    float sum = 0;
    for (float& v : row) sum += v = std::exp(v - largest);
    for (float& v : row) v /= sum;
  }
}

} // namespace mailgrad
