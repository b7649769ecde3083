#pragma once

#include <mailgrad/engine/model/weight_reads.hpp>
#include <mailgrad/engine/worker/event_watch.hpp>
#include <mailgrad/engine/worker/step_runner.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/kernels/cuda/handles.hpp>
#include <mailgrad/kernels/cuda/kept_graphs.hpp>
#include <mailgrad/kernels/cuda/stream_status.hpp>
#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tensor/small_floats.hpp>

#include <mutex>
#include <variant>

namespace mailgrad {

class gpu_program;

/// A model on a queue of a GPU. A step copies weights and batch to the GPU, runs the model's kernels there
/// and copies the gradient back; begin_step() queues all of it, and the watch tells when it has ended. A
/// batch that was foreseen is copied by a stream beside the queue, under the step before.
///
///     owner's thread  weights, batch k -> pinned memory | queue   foresee: batch k+1 -> pinned memory   end_step
///     queue                              copies, kernels of step k, copy back, record  |
///     beside                                                       copy of batch k+1 |
///     watch                                                            the event has passed: notice
///
/// Of a table that the model reads by the rows that a batch names, a step copies these rows alone. On the
/// GPU the table keeps its place, and the other rows are those of earlier steps or none.
///
/// With shards on the same GPU only batch and record cross the bus. The queue waits for the event of each
/// snapshot and copies the weights within the GPU. The gradient stays where the kernels write it, and may be
/// pushed as soon as the step has begun. So the next step may be begun as well, which the queue then runs
/// without a pause. The replica holds what a step reads and writes until the step has ended.
///
/// Where only some shards are on the GPU, a gradient is pushed when its step has ended.
///
/// Each size of batch takes a program and memory of the GPU: in prepare(), or else in the first step with a
/// batch of that size, which waits for it. Other steps take none. foresee() does nothing for a batch of such
/// a size, since the owner could not take the end of the step under way meanwhile. It also does nothing while
/// the batch that was foreseen before, and that another replaces, is still being copied.
/// Errors   device_error: no such GPU, or too little memory. begin_step: graph_error: no kernel there.
class gpu_replica final : public step_runner {
public:
  /// `request.batch` is ignored, and the queue is on the first of `request.devices`. `graphs` is how many
  /// steps at most are kept as graphs; with 0, kernels are always launched one by one. `run_ahead` is how
  /// many steps may be begun while one is under way, 0 or 1; with weights on the host, none.
  gpu_replica(model_function build, model_request request, std::shared_ptr<const parameter_layout> layout,
              std::shared_ptr<event_watch> watch, const weight_places& weights = weight_place::host,
              product_precision products = product_precision::float32,
              std::size_t graphs = cuda::kept_graphs::most_kept, std::size_t run_ahead = 1);
  ~gpu_replica() override; ///< waits for the steps and the copy that are under way
  /// Takes all that steps of so many samples need, so that a lack of memory is known before the run begins.
  void prepare(std::size_t samples) {
    cuda::runtime::make_current(place_.index);
    program_for(samples);
  }
  /// Gradients lie in pinned memory, or on the GPU if the shards do.
  std::shared_ptr<gradient> make_gradient() const override {
    cuda::runtime::make_current(place_.index); // pinned memory would else wake the first GPU
    return naming_memory("a gradient of a worker", [this] { return new_gradient(); });
  }
  void on_end(std::function<void()> notice) override {
    const std::lock_guard held(ending_->mutex);
    ending_->tell = std::move(notice);
  }
  /// Those of the host are copied to pinned memory, if no step is under way and nobody else writes to them.
  void use_weights(std::uint32_t shard, const snapshot& values) override;
  void use_host_weights(std::uint32_t shard, const float* values, std::shared_ptr<const void>) override;

  void use_norms() override { norms_ = true; }
  double squared_norm(const gradient& g) const override {
    return any_near_ ? squared_norm_ : mailgrad::squared_norm(g);
  }
  void compare_with(std::shared_ptr<const gradient> stale) override {
    if (any_near_) compared_ = std::move(stale);
  }
  std::optional<double> cosine_to(const gradient& stale, const gradient& fresh) const override {
    if (!any_near_) return cosine(stale, fresh);
    const std::span<const double> found = products_->seen.as<double>();
    return cosine(found[0], found[1], found[2]);
  }

  std::size_t most_under_way() const noexcept override { return most_under_way_; }
  bool copies_ahead() const noexcept override { return true; }
  void foresee(std::shared_ptr<const batch> next, std::function<void()> copied) override;
  step_state begin_step(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out) override;
  float end_step() override;
  std::optional<device_span> span() const override { return span_; }
  step_state give_up() override { return queued_.empty() ? step_state::finished : step_state::under_way; }
  std::string waits_for() const override;

private:
  /// What the watch and the replica share: an event may pass when the replica is gone.
  struct ending {
    std::mutex mutex; ///< guards all below
    std::function<void()> tell;
    std::exception_ptr failure; ///< why no step will end any more; null: none has failed
  };
  struct given_weights {
    const float* values = nullptr; ///< on the host
    bool staged = false;           ///< the dense ones of these are in pinned memory
    snapshot on_gpu{};
  };
  /// The work that is queued, and what it reads and writes.
  struct queued_step {
    gpu_program* code;
    std::size_t set; ///< of the program's inputs
    std::shared_ptr<const batch> inputs;
    std::shared_ptr<gradient> out;
    std::vector<snapshot> weights;              ///< that lie on the GPU
    std::shared_ptr<const gradient> compared{}; ///< with the gradient of this step; or null
  };
  struct inner_products {
    memory on_gpu; ///< float64[3]
    cuda::pinned_block seen;
  };
  /// The batch that was foreseen. The replica holds it, so that its address belongs to no other one.
  struct foreseen_batch {
    gpu_program* code;
    std::size_t set;
    std::shared_ptr<const batch> inputs;
    device_event copied;
  };

  const cuda_stream& queue_stream() const { return std::get<cuda_stream>(queue_.where()); }
  std::shared_ptr<gradient> new_gradient() const;
  gpu_program& program_for(std::size_t samples);
  queued_step place(std::shared_ptr<const batch> inputs, std::shared_ptr<gradient> out);
  std::size_t free_set(const gpu_program& p) const;
  void stage_dense(std::uint32_t shard) {
    const shard_range range = layout_->shard(shard);
    const std::size_t end = std::min(range.end, std::max(range.begin, layout_->dense_size()));
    std::copy_n(shards_[shard].values, end - range.begin, staged_.as<float>().data() + range.begin);
  }
  void stage_tables(std::uint32_t shard, const queued_step& step);
  void stage_other_weights(const queued_step& step);
  void require_shard(std::uint32_t shard, bool values) const;
  void queue_step();
  void fetch_gradient(const float* from);
  void send_weights();
  float* place_for_gradient() {
    gradient& out = *queued_.back().out;
    memory& there = !any_near_ ? gradient_ : all_near_ ? out.dense : out.on_gpu;
    return there.on<float>(queue_.where()).data();
  }
  void note_end(const float* gradient);
  void multiply(const float* fresh);
  void abandon() noexcept;
  /// Lets go of the weights, and keeps the room that they took.
  void forget(queued_step& step) {
    step.weights.clear();
    spare_ = std::move(step.weights);
  }

  model_function build_;
  model_request request_;
  std::shared_ptr<const parameter_layout> layout_;
  device place_;
  std::shared_ptr<event_watch> watch_;
  std::shared_ptr<ending> ending_ = std::make_shared<ending>();
  cuda::gpu_queue queue_;
  cuda::copy_stream beside_;
  std::vector<bool> near_;   ///< by shard: it is on the GPU
  bool all_near_, any_near_; ///< of these
  bool norms_ = false;
  std::vector<given_weights> shards_;
  std::size_t most_under_way_;
  cuda::pinned_block staged_;    ///< weights of the host; of tables what the step under way reads
  memory weights_, loss_, norm_; ///< on the GPU
  memory gradient_;              ///< on the GPU, if only a copy of it on the host is pushed
  std::map<std::size_t, std::unique_ptr<gpu_program>> programs_; ///< by batch size
  std::vector<queued_step> queued_;                              ///< the steps under way, the oldest first
  std::vector<row_copy> copies_;                                 ///< of the tables of one step
  std::vector<snapshot> spare_;                                  ///< room for the weights of the next one
  std::uint64_t begun_ = 0;                                      ///< steps
  std::optional<device_span> span_;                              ///< of the step that has ended
  double squared_norm_ = 0;                                      ///< of its gradient
  std::shared_ptr<const gradient> compared_;                     ///< with the gradient of the next step
  std::optional<inner_products> products_;                       ///< of the last comparison
  std::optional<foreseen_batch> foreseen_;
  cuda::kept_graphs graphs_;
};

} // namespace mailgrad
