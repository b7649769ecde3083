#pragma once

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/worker/step_model.hpp>

#include <cstdint>
#include <map>
#include <memory>

namespace mailgrad {

/// A model on one device, computing the loss and the gradient of mini-batches from weights that lie
/// elsewhere.
///
/// Batches of any size are taken: for each size a program is compiled when it first comes, so an epoch's
/// short last batch counts as what it is. Other than that a step allocates nothing.
/// Threads  one caller at a time.
class replica : public step_model {
public:
  /// `request.batch` is ignored.
  replica(model_function build, model_request request, std::shared_ptr<const parameter_layout> layout);
  ~replica() override;

  /// A block to compute into. Its memory must outlive every run that got it.
  std::shared_ptr<gradient> make_gradient() const override;

  void use_weights(std::uint32_t shard, const float* values) { weights_.use(shard, values); }
  void use_weights(std::uint32_t shard, const float* values, std::shared_ptr<const void>) override {
    use_weights(shard, values); // the worker itself holds them until the gradient is done
  }

  /// Computes loss and gradient of `inputs` into `out`; calls `done` when both are there.
  ///
  /// Errors  std::invalid_argument without a sample; as bound_model and program::run.
  void run(const stream& s, std::shared_ptr<const batch> inputs, gradient& out, const completion& done);
  void compute(const stream& s, std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out,
               const completion& done) override {
    run(s, std::move(inputs), *out, done);
  }

  /// Of the last run that is done.
  float loss() const noexcept override { return loss_; }

private:
  struct training_program;
  training_program& program_for(const batch& inputs);

  model_function build_;
  model_request request_;
  std::shared_ptr<const parameter_layout> layout_;
  weight_addresses weights_;
  std::map<std::size_t, std::unique_ptr<training_program>> programs_; ///< by batch size
  program* running_ = nullptr;
  completion done_;
  float loss_ = 0;
};

/// The layout over `shards` shards of the variables of a model, as all `request.workers` of its workers build
/// it.
///
/// Errors  graph_error from the model function, or as variable_union has it; std::invalid_argument for more
///         shards than can be cut.
parameter_layout lay_out(const model_function& build, model_request request, std::size_t shards);

} // namespace mailgrad
