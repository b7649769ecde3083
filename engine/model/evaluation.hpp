#pragma once

#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/tensor/error.hpp>
#include <mailgrad/tensor/memory.hpp>

#include <map>
#include <tuple>

namespace mailgrad {

/// A model compiled for a queue, whose batches come from the host, and whose fetched values are read there.
///
///     batch -> pinned memory | copy, kernels, copy back | wait | fetched values
///
/// On the host a run reads the batch where it is. On a GPU it takes the steps above and waits for the last
/// one, so no actor may run it but one with a thread of its own.
/// Errors  as bound_model; device_error. run: std::out_of_range as program; graph_error for other samples.
/// Threads one caller at a time.
class placed_model {
public:
  /// `place` outlives the model.
  placed_model(const model_function& build, const model_request& request, const parameter_layout& layout,
               const bound_model::choose_fetches& choose, device_queue& place);
  ~placed_model(); ///< waits for a run that has failed half-way
  placed_model(const placed_model&) = delete;
  placed_model& operator=(const placed_model&) = delete;
  /// The weights lie where the queue's kernels read them.
  void run(const batch& inputs, const weight_addresses& weights);
  /// What the last run computed. It lasts until the next one.
  const float* fetched(std::size_t index);
  /// Whether the fetched values depend on the batch.
  bool reads_batches() const noexcept { return !model_->sources().inputs().empty(); }

private:
  /// A value that is fetched: on the GPU, and on the host.
  struct fetched_value {
    const void* on_gpu;
    std::size_t bytes, offset; ///< in the pinned memory of all
  };
  /// What a run on a GPU needs besides.
  struct gpu_part {
    cuda::gpu_queue& place;
    cuda::pinned_block staged; ///< the inputs, as they lie on the GPU
    memory inputs;
    std::vector<fetched_value> values;
    cuda::pinned_block seen; ///< these values
  };

  gpu_part part_on(cuda::gpu_queue& place, std::size_t fetches);
  void run_on_gpu(const batch& inputs, const weight_addresses& weights);

  std::optional<bound_model> model_;
  std::optional<gpu_part> gpu_; ///< none: on the host
};

/// The forward pass of a model over batches of one size, as it is built for an evaluation.
/// Errors  as placed_model.
/// Threads one caller at a time.
class forward_pass {
public:
  /// For batches of `size` samples of the kind of `samples`. `with_loss`: with the loss. `place` outlives the
  /// pass.
  forward_pass(const model_function& build, model_request request, const parameter_layout& layout,
               const dataset& samples, std::size_t size, bool with_loss, device_queue& place);
  /// The logits of these samples, float32[size, outputs], for tokens of each place in a window, until the
  /// next call.
  std::span<const float> run(const weight_addresses& weights, const dataset& samples,
                             std::span<const std::uint32_t> which);
  /// Whether the model reads anything of a sample; if not, it answers to all alike.
  bool reads_samples() const noexcept { return model_->reads_batches(); }
  const batch& inputs() const noexcept { return inputs_; } ///< the samples of the last call
  float loss();                                            ///< the loss of the last call

private:
  std::size_t outputs_; ///< of the whole batch
  batch inputs_;
  std::optional<placed_model> model_;
};

/// The addresses of all weights in one flat vector, float32[layout.size()].
/// Errors  shape_error, naming `caller`, for another length.
weight_addresses addresses_of(const char* caller, std::span<const float> parameters,
                              const parameter_layout& layout);

/// A model that is tested on one queue as often as its weights change, by evaluate(), predict() and
/// write_text().
///
/// On the host it reads the weights where they are. On a GPU it has a copy of them and its programs, which
/// stay there for the next test, and it waits for the queue: so an actor that uses it has a thread of its
/// own. Products are in float32 there as well.
/// Errors   device_error: no such GPU, or it fails, or its memory does not suffice; those of placed_model.
/// Threads  one caller at a time.
class tested_model {
public:
  /// `layout` outlives it.
  tested_model(model_function build, model_request request, const parameter_layout& layout,
               std::unique_ptr<device_queue> place = std::make_unique<host_queue>());
  /// On a queue of its own on this device.
  tested_model(model_function build, model_request request, const parameter_layout& layout, device place);
  ~tested_model() { finish_for_good(*place_); }
  tested_model(tested_model&&) = delete;

  const model_function& build() const noexcept { return build_; }
  const model_request& request() const noexcept { return request_; }
  const parameter_layout& layout() const noexcept { return layout_; }
  device_queue& place() noexcept { return *place_; }
  /// Tests these weights from now on, float32[layout.size()], which on the host stay with the caller.
  /// Errors  shape_error, naming `caller`, for another length.
  void use(const char* caller, std::span<const float> parameters);
  /// The same for the weights of one shard, to be called for each: the queue copies them.
  /// Errors  std::invalid_argument: there is no such shard; shape_error for another length; device_error:
  ///         they lie on another device.
  void use(std::uint32_t shard, const snapshot& values);
  void use(std::uint32_t shard, std::span<const float> on_host) {
    copy_from_host(on_host, range_of(shard, on_host.size()).begin);
  }
  /// Copies the weights to `to`, float32[layout.size()], on the host.
  /// Errors  std::logic_error: none have been given.
  void copy_weights(std::span<float> to);
  /// To be called when weights have been given.
  const weight_addresses& weights() const noexcept { return *weights_; }
  /// The forward pass over so many samples of this kind. It lasts until the next call, on a GPU as long as
  /// the model, unless memory for another one lacks.
  forward_pass& pass_over(const dataset& samples, std::size_t size, bool with_loss);
  /// How many samples to compute at once. Few windows of a text fill a GPU, and take less of its memory.
  std::size_t samples_at_once() const noexcept;

  /// Calls `make`, which takes memory of the queue. If that is lacking, it drops the kept passes and calls it
  /// again.
  template <class Make>
  auto with_room(const Make& make) {
    try {
      return make();
    } catch (const out_of_memory&) {
      if (!drop_passes()) throw;
    }
    return make();
  }

private:
  /// Samples, entries of sparse samples, and whether the loss is computed.
  using pass_key = std::tuple<std::size_t, std::size_t, bool>;

  bool is_there() const noexcept { return is_on_gpu(*place_); }
  memory& own_weights();
  bool drop_passes();
  void copy_from_host(std::span<const float> from, std::size_t first);
  shard_range range_of(std::uint32_t shard, std::size_t values) const;

  model_function build_;
  model_request request_;
  const parameter_layout& layout_;
  std::unique_ptr<device_queue> place_;
  memory copy_;                   ///< of the weights, float32[layout.size()]; empty if none was needed so far
  std::span<const float> theirs_; ///< the weights that are read where they are; empty if the copy is
  std::optional<weight_addresses> weights_;
  std::map<pass_key, std::unique_ptr<forward_pass>> passes_;
};

/// The quality of weights on samples that were not trained on. A model that reads none has no accuracy.
struct evaluation {
  std::optional<double> accuracy; ///< share of rows whose largest logit is that of the label; for classes
  std::optional<double> rmse;     ///< root of the mean squared error, in the targets' unit; for numbers only
  double loss = 0;                ///< mean over the samples
  bool whole = true;              ///< false if it ended early, so that not all samples count
  /// How many samples of each class got each answer: [classes, classes], by label and then by answer. Empty
  /// for numbers, for tokens and for more than 1024 classes.
  std::vector<std::uint64_t> confusion{};
};

/// Runs the model, as `request.worker` builds it, over all of `samples` on the calling thread. It calls
/// `stop` every few hundred samples and ends early when that returns true.
/// Shapes  parameters: float32[layout.size()], the whole flat vector.
/// Errors  shape_error for other parameters than the layout has; std::invalid_argument for samples of another
///         kind or size than the request's, or no model function; graph_error as build_fitting; device_error.
evaluation evaluate(const model_function& build, model_request request, const parameter_layout& layout,
                    std::span<const float> parameters, const dataset& samples,
                    const std::function<bool()>& stop = {});
/// The same where `model` is, with the weights that it has.
evaluation evaluate(tested_model& model, const dataset& samples, const std::function<bool()>& stop = {});

/// The logits or the predicted numbers of each sample, in the order of the samples. Runs on the calling
/// thread, with the model that `request.worker` builds for an evaluation.
/// Shapes  parameters: float32[layout.size()]; the result: float32[samples, request.outputs()].
/// Errors  as evaluate(); std::invalid_argument for a model of tokens, whose samples are no arrays.
std::vector<float> predict(const model_function& build, const model_request& request,
                           const parameter_layout& layout, std::span<const float> parameters,
                           const named_arrays& samples);
/// The same for samples of any kind, whose labels are not looked at. For tokens, the logits of each place in
/// a window: float32[samples, window length, classes].
std::vector<float> predict(const model_function& build, const model_request& request,
                           const parameter_layout& layout, std::span<const float> parameters,
                           const dataset& samples);
/// The same where `model` is, with the weights that it has.
std::vector<float> predict(tested_model& model, const dataset& samples);

} // namespace mailgrad
