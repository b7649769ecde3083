#pragma once

#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/shard/gpu_block.hpp>
#include <mailgrad/optim/optimizer.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <deque>

namespace mailgrad {

/// Writes the updates of one replica under `hogwild` straight into the shared block, which the replica reads.
///
/// Schedules count all updates of the weights: those that shards made before, and those of all replicas. A
/// rule with state (momentum, Adam) keeps one state for each replica, and its bias correction counts the
/// updates of that replica. A single replica makes the weights that a shard would make, bit for bit.
///
/// On a GPU the block is there, and each writer has a queue of its own for its updates. The store counts them
/// when they are queued. The replica's next step waits for the updates of this writer alone.
/// Source  Niu, Recht, Re & Wright, "Hogwild!", NIPS 2011, arXiv:1106.5730.
/// Threads one caller at a time; any number of writers share one store.
class hogwild_writer {
public:
  hogwild_writer(const parameter_layout& layout, std::shared_ptr<hogwild_store> store,
                 const optimizer_options& options);
  /// Writes to a block on the GPU of this queue, as the worker of this number. The store counts alone.
  hogwild_writer(const parameter_layout& layout, std::shared_ptr<hogwild_store> store,
                 const optimizer_options& options, std::shared_ptr<gpu_block> block, std::uint32_t worker,
                 std::shared_ptr<device_queue> at);
  hogwild_writer(const hogwild_writer&) = delete;
  hogwild_writer& operator=(const hogwild_writer&) = delete;
  ~hogwild_writer() { finish_for_good(*at_); } ///< waits for the updates that are queued

  bool is_on_gpu() const noexcept { return block_ != nullptr; }
  /// The weights of one shard on the GPU, for a step that begin_step() has begun.
  snapshot racing_weights(std::uint32_t shard) const { return snapshot(block_->of(shard).values, reads_); }
  /// Notes the version that the next gradient is computed from. Returns the block to read; null on a GPU.
  const float* begin_step();
  std::string_view rule() const noexcept { return optimizer_->name(); } ///< the name of the update rule
  std::uint64_t version_read() const noexcept { return version_read_; }
  /// Makes one update from `g` times `scale`. Returns how many updates other workers made since begin_step().
  std::uint64_t write(const gradient& g, float scale);
  /// The same, on the host or on a GPU. There it holds `g` until the update has run.
  std::uint64_t write(std::shared_ptr<const gradient> g, float scale);

  /// Writes or reads the state of the rule, between two updates, without the block. What lies on a GPU has
  /// come when an event has passed that the writer's queue recorded after this call.
  /// Errors  archive_error.
  void keep(archive& a) {
    a.version(1);
    a.field("updates", updates_);
    optimizer_->keep(a, *at_);
  }

private:
  struct table {
    std::size_t variable;
    std::size_t width;
    std::size_t offset; ///< floats from the start of the block
    std::int32_t rows;
    std::vector<float> copy; ///< memory for the whole table; only the rows of the present step are valid
  };

  /// Counts only finished updates, so two updates that are made at once may have the same number.
  update_number next_update() const noexcept {
    update_number next(updates_ + 1);
    next.of_weights = store_->updates() + 1;
    return next;
  }
  void write_dense(const gradient& g, float scale, update_number step);
  void queue_dense(const gradient& g, float scale, update_number step);
  void queue_rows(const gradient& g, float scale, update_number step);
  void write_rows(table& t, update_number step);

  std::shared_ptr<hogwild_store> store_;
  std::shared_ptr<gpu_block> block_; ///< null: the store is the block
  std::uint32_t worker_ = 0;
  std::vector<shard_range> ranges_; ///< of the shards, on a GPU
  std::shared_ptr<device_queue> at_;
  device_event reads_; ///< after which the next step may read
  std::deque<std::pair<device_event, std::shared_ptr<const gradient>>> taken_; ///< which updates still read
  std::unique_ptr<optimizer> optimizer_;
  std::size_t dense_size_;
  std::vector<table> tables_;       ///< on the host,
  std::vector<table_piece> pieces_; ///< and on a GPU
  growing_buffer order_;            ///< for that of the rows of a gradient there
  std::uint64_t version_read_ = 0;
  std::uint64_t updates_ = 0; ///< made by this writer
  row_join rows_;             ///< the rows of the table being updated
  std::vector<float> before_; ///< the values of those rows as they were read
};

} // namespace mailgrad
