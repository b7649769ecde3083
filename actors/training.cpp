#include <mailgrad/actors/training.hpp>

#include <mailgrad/actors/run/planned_run.hpp>
#include <mailgrad/actors/training_run.hpp>

#include <algorithm>
#include <utility>

namespace mailgrad {

training::training(model_function model, shared_data data, training_options options,
                   std::shared_ptr<const time_source> time)
    : run_(std::make_unique<training_run>(std::move(model), std::move(data), std::move(options), std::nullopt,
                                          std::move(time))) {}
training::training(model_function model, shared_data data, training_options options,
                   remote::serve_options serve, std::shared_ptr<const time_source> time)
    : run_(std::make_unique<training_run>(
          std::move(model), std::move(data),
          for_workers_elsewhere(std::move(options), serve.workers, serve.devices), serve, std::move(time))) {}
training::~training() = default;

void training::stop(const std::string& why) { run_->stop(why); }
void training::expect_nobody() { run_->expect_nobody(); }
void training::switch_policy(const std::string& policy, const std::string& why) {
  run_->switch_policy(policy, why);
}
void training::observe(std::function<void(const run_event&)> observer) { run_->observe(std::move(observer)); }
std::string training::metrics_failure() const { return run_->metrics_failure(); }
std::string training::recording_failure() const { return run_->recording_failure(); }
const std::vector<std::string>& training::remarks() const noexcept { return run_->remarks(); }
training_report training::report_so_far(std::chrono::milliseconds span) const {
  return run_->report_so_far(span);
}
void training::take_checkpoint() { run_->take_checkpoint(); }
checkpoint_account training::checkpoints() const { return run_->checkpoints(); }
std::optional<recording_account> training::recorded() const { return run_->recorded(); }
bool training::wait_for(std::chrono::milliseconds span) { return run_->wait_for(span); }
training_progress training::progress() const { return run_->progress(); }
std::vector<std::string> training::name_waits(std::chrono::milliseconds span) {
  return run_->name_waits(span);
}
std::vector<run_member> training::members(std::chrono::milliseconds span) const {
  return run_->members(span);
}
training_report training::report(const std::function<bool()>& stop_test) { return run_->report(stop_test); }
run_trace training::trace() { return run_->trace(); }
std::uint64_t training::total_steps() const noexcept { return run_->total_steps(); }
std::span<const float> training::parameters() { return run_->parameters(); }
std::vector<named_weights> training::weights() {
  const std::span<const float> all = parameters();
  return all.empty() ? std::vector<named_weights>() : weights_by_name(layout(), all);
}
std::vector<float> training::predict(const named_arrays& samples) { return run_->predict(samples); }
const parameter_layout& training::layout() const noexcept { return run_->layout(); }

training_report train(model_function model, shared_data data, training_options options,
                      const std::function<void(const training_progress&)>& observe) {
  training run(std::move(model), std::move(data), std::move(options));
  while (!run.wait_for(std::chrono::milliseconds{250}))
    if (observe) observe(run.progress());
  return run.report();
}

training serve(model_function model, shared_data data, training_options options, const std::string& address) {
  remote::serve_options listen{.listen = address, .workers = std::max(options.workers, 1U)};
  return {std::move(model), std::move(data), std::move(options), std::move(listen)};
}

} // namespace mailgrad
