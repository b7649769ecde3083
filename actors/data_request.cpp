#include <mailgrad/actors/data_request.hpp>

#include <mailgrad/data/batch.hpp>

namespace mailgrad {

model_request request_for(const data_split& data, std::size_t batch) {
  model_request request;
  request.sample_dims = data.train.sample_dims();
  request.features = data.train.is_tokens() ? feature_kind::tokens : feature_kind::numbers;
  const auto categories = data.train.category_counts();
  request.categories.assign(categories.begin(), categories.end());
  request.wanted = data.train.has_targets() ? answer::a_number : answer::a_class;
  request.classes = data.train.classes();
  request.batch = batch;
  request.nonzeros = data.train.is_sparse() ? max_nonzeros(data.train, batch) : 0;
  return request;
}

} // namespace mailgrad
