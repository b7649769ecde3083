#include <mailgrad/engine/model/data_request.hpp>

#include <mailgrad/data/batch.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>

namespace mailgrad {

std::size_t room_for_entries(const dataset& samples, std::size_t batch) {
  return samples.is_sparse() ? std::max<std::size_t>(1, max_nonzeros(samples, batch)) : 0;
}

namespace {

std::vector<input_request> inputs_of(const dataset& samples) {
  std::vector<input_request> inputs;
  if (const named_arrays* arrays = samples.arrays())
    for (const auto& [name, values] : arrays->all())
      inputs.push_back({name, {values.sample_dims(), values.type()}});
  return inputs;
}

} // namespace

model_request request_for(const data_split& data, std::size_t batch) {
  model_request request;
  request.sample_dims = data.train.sample_dims();
  request.features = data.train.is_tokens() ? feature_kind::tokens : feature_kind::numbers;
  const auto categories = data.train.category_counts();
  request.categories.assign(categories.begin(), categories.end());
  request.inputs = inputs_of(data.train);
  request.target_dims = data.train.target_dims();
  request.wanted = data.train.has_targets() ? answer::a_number : answer::a_class;
  request.classes = data.train.classes();
  request.batch = batch;
  request.nonzeros = room_for_entries(data.train, batch);
  return request;
}

namespace {

const char* in_words(feature_kind kind) { return kind == feature_kind::tokens ? "tokens" : "numbers"; }
const char* in_words(answer wanted) { return wanted == answer::a_number ? "numbers" : "classes"; }

template <class A, class B>
void require_equal(const char* what, const A& found, const B& expected) {
  if (std::string(found) != std::string(expected))
    throw std::invalid_argument(
        fmt::format("data: {} of {}, where the model was built for {}", what, found, expected));
}

std::string in_words(std::span<const std::size_t> counts) {
  std::string text;
  for (const std::size_t n : counts) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return text.empty() ? "none" : text;
}

/// "'image' float32 28x28x1, 'meta' float32 4"
std::string in_words(std::span<const input_request> inputs) {
  std::string text;
  for (const input_request& i : inputs)
    text += (text.empty() ? "'" : ", '") + i.name + "' " + to_string(i.sample);
  return text.empty() ? "none" : text;
}

} // namespace

void require_readable(const model_request& request, const dataset& samples) {
  const feature_kind kind = samples.is_tokens() ? feature_kind::tokens : feature_kind::numbers;
  require_equal("named inputs", in_words(inputs_of(samples)), in_words(request.inputs));
  require_equal("samples", in_words(kind), in_words(request.features));
  require_equal("samples", to_string(samples.sample_dims()), to_string(request.sample_dims));
  require_equal("categories", in_words(samples.category_counts()), in_words(request.categories));
  require_equal("labels", in_words(samples.has_targets() ? answer::a_number : answer::a_class),
                in_words(request.wanted));
  require_equal("targets", to_string(samples.target_dims()), to_string(request.target_dims));
  if (!samples.has_targets() && samples.classes() > request.classes)
    throw std::invalid_argument(fmt::format("data: labels of {} classes, where the model was built for {}",
                                            samples.classes(), request.classes));
}

} // namespace mailgrad
