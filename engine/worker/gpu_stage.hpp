#pragma once

#include <mailgrad/engine/worker/stage_program.hpp>
#include <mailgrad/engine/worker/step_runner.hpp>
#include <mailgrad/kernels/cuda/gpu_queue.hpp>
#include <mailgrad/kernels/cuda/stream_status.hpp>
#include <mailgrad/tensor/small_floats.hpp>

namespace mailgrad {

/// What a stage on a queue of a GPU has besides its programs: the queue, and for the step under way the
/// weights, the parts of micro-batches, values from elsewhere, and what each run has found.
///
///     begin -> for each part: bring, stage_program::run, ran, hand_on -> end -> (an event passes) -> take
///
/// Nothing waits for the GPU. The weights of shards on the same GPU are copied there, and only those that the
/// stage reads, of tables the rows that a micro-batch names when it comes; its part of the gradient then goes
/// to where these shards read it. Others come and go by way of pinned memory, tables whole.
/// Errors  device_error. abandon() ends a step that could not be queued whole.
/// Threads one caller at a time, each on any thread.
class gpu_stage final : public stage_place {
public:
  /// `weights` is where the shards of `layout` are.
  gpu_stage(device where, std::shared_ptr<const parameter_layout> layout, const weight_places& weights,
            product_precision products);
  ~gpu_stage() override { finish(); }

  const std::shared_ptr<cuda::gpu_queue>& at() const noexcept { return queue_; }
  /// Begins a step of so many runs of parts, and queues what all read. What is given stays until its end.
  void begin(std::span<const weight_view> weights, bool racing, const stage_program& code, std::size_t runs,
             stage_sum& sum);
  /// The values where kernels of this queue read them, which wait for them; copied from another place.
  const value_set* bring(const std::shared_ptr<const value_set>& values);
  /// Notes the end of part `i`, which was queued last.
  void ran(const stage_program& code, std::size_t i, float share);
  /// Gives values of this stage their event. With `elsewhere` they also come to the host.
  void hand_on(value_set& made, bool elsewhere);
  void end(const stage_program& code, stage_sum& sum) {
    if (all_near_) return;
    fetch_dense(code, sum);
    fetch_rows(sum);
  }

  struct run_span {
    instant begin{0};
    instant end{0};
  };
  /// Takes what the runs have found, in their order, when all of the step is done. Adds the losses to `sum`.
  /// Errors  std::out_of_range: what the first kernel found wrong that found something.
  std::vector<run_span> take(stage_sum& sum);
  void abandon() noexcept; ///< waits for what was queued of a step that failed, and forgets it
  /// Waits for what is queued, before the memory goes that it reads.
  void finish() noexcept { finish_for_good(*queue_); }

  const void* part_of(const micro_batch& m, const tensor& part) override;
  const float* weights_of(std::size_t variable) const override {
    return weights_.on<float>(queue_->where()).data() + layout_->variables()[variable].offset;
  }
  void bring_rows(const micro_batch& m, const weight_reads& reads) override;
  float* dense_of(const stage_sum& sum) override {
    memory& there = !any_near_ ? gradient_ : all_near_ ? sum.into->dense : sum.into->on_gpu;
    return there.on<float>(queue_->where()).data();
  }
  std::byte* room_for_rows(std::size_t bytes, stage_sum& sum) override;
  std::span<const std::int32_t> rows_of(const micro_batch& m, const tensor& part, stage_sum& sum) override;

private:
  struct noted_run {
    const stage_program* code;
    std::size_t part;
    float share;
    bool has_loss;
  };

  const cuda_stream& queue_stream() const { return std::get<cuda_stream>(queue_->where()); }
  cuda::step_record& record_of(std::size_t run) { return records_.as<cuda::step_record>()[run]; }
  void make_room_for(std::size_t runs);
  void send_weights(bool racing, const stage_program& code);
  void send(std::uint32_t shard, const shard_range& piece);
  void fetch_dense(const stage_program& code, stage_sum& sum);
  void fetch_rows(stage_sum& sum);
  std::shared_ptr<value_set> copy_of(const std::vector<memory>& from);

  device where_;
  std::shared_ptr<const parameter_layout> layout_;
  std::vector<bool> near_; ///< by shard: it is on this GPU
  bool all_near_, any_near_;
  std::shared_ptr<cuda::gpu_queue> queue_;
  host_queue pinned_; ///< pinned memory of the host
  memory weights_;    ///< of the whole model
  cuda::pinned_block staged_;
  memory gradient_;    ///< if no shard is near
  memory no_loss_;     ///< what a part without a loss is said to have
  row_memory on_gpu_;  ///< what this step has there besides
  row_memory on_host_; ///< what it copies from, in pinned memory
  cuda::pinned_block records_;
  std::vector<cuda::pinned_block> outgrown_;
  std::span<const weight_view> given_; ///< the weights of the step under way
  std::vector<row_copy> copies_;
  std::vector<noted_run> runs_;
  std::map<std::pair<std::size_t, const tensor*>, const std::byte*> parts_; ///< by micro-batch
  std::map<const value_set*, std::shared_ptr<const value_set>> brought_;
  std::vector<std::shared_ptr<const value_set>> held_; ///< until the step has ended
};

} // namespace mailgrad
