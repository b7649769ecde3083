#include <mailgrad/engine/worker/simulated_runner.hpp>

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

float simulated_runner::compute() {
  shared_->use_racing_weights(racing());
  for (std::uint32_t s = 0; s < weights_.size(); ++s) shared_->use_host_weights(s, weights_[s], {});
  shared_->begin_step(std::move(inputs_), std::move(out_));
  const float loss = shared_->end_step();
  if (on_loss_) on_loss_(loss);
  return loss;
}

} // namespace mailgrad
