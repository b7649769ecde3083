#include <mailgrad/engine/worker/simulated_runner.hpp>

#include <mailgrad/tensor/fetch_ahead.hpp>

#include <utility>

namespace mailgrad {

void simulated_runner::use_host_weights(std::uint32_t shard, const float* values,
                                        std::shared_ptr<const void>) {
  if (weights_.size() <= shard) weights_.resize(shard + 1);
  weights_[shard] = values;
}

/// Weights that others write to meanwhile (hogwild) would be newer at the end, so they are read now.
step_state simulated_runner::begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) {
  require_step(inputs.get(), out.get());
  const instant now = delays_.time->now();
  const instant due =
      now + span_of(delays_.law->seconds_on(*inputs, ++steps_, in_seconds(now - delays_.begun)));
  if (on_begin_) on_begin_(weights_);
  inputs_ = std::move(inputs);
  out_ = std::move(out);
  loss_.reset();
  if (racing()) loss_ = compute();
  delays_.timer->at(due, notice_);
  return step_state::under_way;
}

void simulated_runner::skip_step() {
  inputs_.reset();
  out_.reset();
}

float simulated_runner::end_step() { return loss_ ? *loss_ : compute(); }

void simulated_runner::fetch_parts() const noexcept {
  fetch_ahead(*delays_.law);
  fetch_ahead(*delays_.timer);
  fetch_ahead(weights_.data(), weights_.size() * sizeof(float*));
  if (inputs_) fetch_ahead(*inputs_);
  if (out_) fetch_ahead(*out_);
}

/// How many weights there are is not known here; the first ones are all of a small model.
void simulated_runner::fetch_values() const noexcept {
  constexpr std::size_t first = 512;
  for (const float* of_shard : weights_) mailgrad::fetch_ahead(of_shard, first);
  if (inputs_) mailgrad::fetch_ahead(inputs_->features.data(), inputs_->features.size() * sizeof(float));
  if (inputs_) mailgrad::fetch_ahead(inputs_->labels.data(), inputs_->labels.size() * sizeof(float));
  if (out_ && out_->dense.is_on_host()) {
    const std::span<const float> dense = std::as_const(out_->dense).on_host<float>();
    mailgrad::fetch_ahead(dense.data(), dense.size_bytes());
  }
}

float simulated_runner::compute() {
  shared_->use_racing_weights(racing());
  for (std::uint32_t s = 0; s < weights_.size(); ++s) shared_->use_host_weights(s, weights_[s], {});
  shared_->begin_step(std::move(inputs_), std::move(out_));
  const float loss = shared_->end_step();
  if (on_loss_) on_loss_(loss);
  return loss;
}

} // namespace mailgrad
