#include <mailgrad/lab/own_sample_runner.hpp>

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace mailgrad::lab {

own_sample_runner::own_sample_runner(std::shared_ptr<step_runner> to, std::shared_ptr<const dataset> samples,
                                     rank worker, std::uint32_t workers, std::size_t batch,
                                     std::size_t nonzeros)
    : to_(std::move(to)), batches_(samples, batch, nonzeros) {
  for (std::size_t s = worker.value; s < samples->size(); s += workers)
    own_.push_back(static_cast<std::uint32_t>(s));
  if (own_.empty())
    throw std::invalid_argument(fmt::format("lab: {} samples are too few for each of {} workers to have some",
                                            samples->size(), workers));
}

step_state own_sample_runner::begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) {
  require_step(inputs.get(), out.get());
  next_.resize(inputs->size);
  for (std::size_t i = 0; i < next_.size(); ++i)
    next_[i] = own_[(inputs->number * inputs->size + i) % own_.size()];
  to_->use_racing_weights(racing());
  return to_->begin_step(batches_.cut(inputs->number, inputs->epoch, next_), std::move(out));
}

} // namespace mailgrad::lab
