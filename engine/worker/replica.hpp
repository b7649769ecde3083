#pragma once

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/worker/step_runner.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

namespace mailgrad {

/// A model on the calling thread, which reads the weights where the shards keep them.
///
/// Batches may have any size. The first one of each size compiles a program; other steps allocate nothing.
class replica : public step_runner {
public:
  /// `request.batch` is ignored. Gradients lie in `blocks`; null: in memory of this process.
  replica(model_function build, model_request request, std::shared_ptr<const parameter_layout> layout,
          block_source blocks = {});
  ~replica() override;
  /// The memory of a gradient must live until the step that writes to it has ended.
  std::shared_ptr<gradient> make_gradient() const override {
    return mailgrad::make_gradient(*layout_, blocks_);
  }

  using step_runner::use_weights;
  void use_weights(std::uint32_t shard, const float* values) { weights_.use(shard, values); }
  /// weight_addresses copies a variable that is cut between shards, while under hogwild others write to it.
  void use_host_weights(std::uint32_t shard, const float* values, std::shared_ptr<const void>) override {
    std::optional<racing_read> others_write;
    if (racing()) others_write.emplace();
    use_weights(shard, values);
  }

  bool computes_at_once() const noexcept override { return true; }
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override;
  float end_step() override { return loss_; }

private:
  struct training_program;
  training_program& program_for(const batch& inputs);

  model_function build_;
  model_request request_;
  std::shared_ptr<const parameter_layout> layout_;
  block_source blocks_;
  weight_addresses weights_;
  std::map<std::size_t, std::unique_ptr<training_program>> programs_; ///< by batch size
  stream where_ = host_stream{};
  float loss_ = 0;
};

} // namespace mailgrad
