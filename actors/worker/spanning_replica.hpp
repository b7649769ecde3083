#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/kernels/cuda/handles.hpp>

namespace mailgrad {

/// The runner of a worker whose model spans several devices. Each device has a stage actor, and a step is one
/// message to each stage and one answer from each.
///
/// The batch is cut into micro-batches of nearly equal size, so that a stage can begin before another has
/// computed the whole batch. The gradient is the mean over all samples, as without micro-batches. Random
/// operations draw anew for each micro-batch.
class spanning_replica : public step_runner {
public:
  struct options {
    rank worker;
    std::vector<device> devices;    ///< one for each stage
    std::vector<caf::actor> stages; ///< in the order of `devices`
    std::size_t micro_batches = 1;  ///< of a batch; fewer if it has fewer samples
    std::shared_ptr<const parameter_layout> layout;
    std::vector<std::shared_ptr<trace_track>> traces{}; ///< one for each stage, or none
    /// A gradient to which several devices contribute has an addend for each stage, instead of one sum.
    /// Shards then add them in the pass that applies the gradient. The stages must have the same setting.
    bool sums_apart = false;
    block_source blocks{}; ///< where its gradients lie; null: in its process
    /// Where the shards are, if all devices are streams of one GPU. Else all go by way of the host.
    weight_places weights{weight_place::host};
  };

  explicit spanning_replica(options o);

  /// The handlers of messages to the worker that are meant for this runner: answers of the stages, and their
  /// deaths.
  caf::message_handler hear(caf::event_based_actor* worker);

  std::shared_ptr<gradient> make_gradient() const override;
  void on_end(std::function<void()> notice) override { ended_ = std::move(notice); }
  void use_weights(std::uint32_t shard, const snapshot& values) override {
    if (!values || values.owner()->is_on_host()) return step_runner::use_weights(shard, values);
    weights_[shard] = {nullptr, nullptr, values};
  }
  void use_host_weights(std::uint32_t shard, const float* values,
                        std::shared_ptr<const void> owner) override {
    weights_[shard] = {values, std::move(owner)};
  }
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override;
  float end_step() override;
  /// The stages stop and release what they hold, so no step is under way.
  step_state give_up() override {
    for (const caf::actor& stage : options_.stages) messaging::send(self_, stage, mailgrad::give_up{});
    return step_state::finished;
  }
  std::vector<stage_report> stage_reports() override {
    std::vector<stage_report> reports;
    for (std::size_t p = 0; p < options_.devices.size(); ++p)
      reports.push_back({to_string(options_.devices[p]), busy_[p], std::move(options_.traces[p])});
    return reports;
  }
  std::string waits_for() const override {
    std::string devices;
    for (std::size_t p = 0; p < sums_.size(); ++p)
      if (!sums_[p]) devices.append(devices.empty() ? "" : ", ").append(to_string(options_.devices[p]));
    return "its stages on " + devices;
  }

private:
  void take_rows(std::vector<stage_rows> rows, gradient& out);
  void split(const std::shared_ptr<const batch>& inputs, step_work& work);
  void take(const step_computed& x) {
    options_.traces[x.stage] = x.trace;
    busy_[x.stage] += x.busy;
    sums_[x.stage] = x.sum;
    if (--missing_ == 0) ended_();
  }
  /// Neither the step under way nor another can be computed.
  void break_off(std::size_t stage, const std::string& why) {
    if (!broken_.empty()) return;
    broken_ = "its stage on " + to_string(options_.devices[stage]) + " " + why;
    ended_();
  }

  caf::event_based_actor* self_ = nullptr;
  options options_;
  std::vector<weight_view> weights_;          ///< by shard
  bool all_near_, any_near_;                  ///< shards that are on the GPU of all stages
  std::unique_ptr<cuda::copy_stream> beside_; ///< fills gradients there with zeros; null if none is near
  object_pool<batch> parts_;
  object_pool<row_memory> rows_;
  std::uint64_t step_ = 0;
  std::shared_ptr<gradient> into_;
  std::vector<std::optional<stage_sum>> sums_; ///< of the present step, by stage
  std::size_t missing_ = 0;
  std::vector<std::int64_t> busy_; ///< by stage, ns
  std::function<void()> ended_;
  std::string broken_;                    ///< why no further step can be computed; empty if one can
  std::optional<world_errc> by_device_{}; ///< how the device of a stage has failed, if that is why
};

} // namespace mailgrad
