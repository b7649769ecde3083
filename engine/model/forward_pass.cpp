#include <mailgrad/engine/model/forward_pass.hpp>

#include <mailgrad/engine/model/data_request.hpp>
#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace mailgrad {

namespace {

constexpr std::size_t logits_fetch = 0;
constexpr std::size_t loss_fetch = 1;

} // namespace

forward_pass::forward_pass(const model_function& build, model_request request, const parameter_layout& layout,
                           const dataset& samples, std::size_t size, bool with_loss, lane& place)
    : outputs_(size * request.outputs()) {
  if (request.features == feature_kind::tokens) outputs_ *= request.sample_dims.size();
  request.batch = size;
  shape_batch(samples, size, room_for_entries(samples, size), inputs_);
  request.nonzeros = inputs_.columns.size();
  request.purpose = phase::evaluation;
  model_.emplace(
      build, request, layout,
      [with_loss](graph&, const model_outputs& outputs) {
        return with_loss ? std::vector{outputs.logits, outputs.loss} : std::vector{outputs.logits};
      },
      place);
}

std::span<const float> forward_pass::run(const weight_addresses& weights, const dataset& samples,
                                         std::span<const std::uint32_t> which) {
  fill_batch(samples, which, inputs_);
  model_->run(inputs_, weights);
  return {model_->fetched(logits_fetch), outputs_};
}

float forward_pass::loss() { return *model_->fetched(loss_fetch); }

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

} // namespace mailgrad
