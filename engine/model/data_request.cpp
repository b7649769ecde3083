#include <mailgrad/engine/model/data_request.hpp>

#include <mailgrad/data/batch.hpp>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>

namespace mailgrad {

std::size_t room_for_entries(const dataset& samples, std::size_t batch) {
  return samples.is_sparse() ? std::max<std::size_t>(1, max_nonzeros(samples, batch)) : 0;
}

model_request request_for(const data_split& data, std::size_t batch) {
  model_request request;
  request.sample_dims = data.train.sample_dims();
  request.features = data.train.is_tokens() ? feature_kind::tokens : feature_kind::numbers;
  const auto categories = data.train.category_counts();
  request.categories.assign(categories.begin(), categories.end());
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
    throw std::invalid_argument(std::string("data: ") + what + " of " + std::string(found) +
                                ", where the model was built for " + std::string(expected));
}

std::string in_words(std::span<const std::size_t> counts) {
  std::string text;
  for (const std::size_t n : counts) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return text.empty() ? "none" : text;
}

} // namespace

void require_readable(const model_request& request, const dataset& samples) {
  const feature_kind kind = samples.is_tokens() ? feature_kind::tokens : feature_kind::numbers;
  require_equal("samples", in_words(kind), in_words(request.features));
  require_equal("samples", to_string(samples.sample_dims()), to_string(request.sample_dims));
  require_equal("categories", in_words(samples.category_counts()), in_words(request.categories));
  require_equal("labels", in_words(samples.has_targets() ? answer::a_number : answer::a_class),
                in_words(request.wanted));
  if (!samples.has_targets() && samples.classes() > request.classes)
    throw std::invalid_argument("data: labels of " + std::to_string(samples.classes()) +
                                " classes, where the model was built for " + std::to_string(request.classes));
}

} // namespace mailgrad
