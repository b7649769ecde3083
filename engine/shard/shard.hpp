#pragma once

#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/shard/gradient_sum.hpp>
#include <mailgrad/engine/shard/row_log.hpp>
#include <mailgrad/optim/identity.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

namespace mailgrad {

/// One shard of a model: its weights as immutable versions, and the optimiser that makes the next one.
///
/// An update writes in place if there is no snapshot of the weights, and otherwise into a spare block. The
/// dense part costs the same memory traffic either way. Of a sparse table, a spare block needs only the rows
/// that were written since it was the latest (row_log, gpu_row_log).
///
/// A shard owns the device queue of its updates. On a GPU they run later, in the order in which they were
/// queued, and the shard holds the memory that they read until they have run. Versions count the updates that
/// are queued, so they say the same on a GPU as on the host.
/// Shapes  a snapshot is float32[range of the shard], in the layout of parameter_layout.
/// Errors  shape_error, std::bad_alloc; nothing has changed then. device_error: a GPU that fails, or work
///         that only the host does: gradients that further devices add to, and sums of rows of tables.
/// Threads  one caller at a time; snapshots may be read on any thread.
class shard {
public:
  /// Makes version 0, the first values of the variables. They do not depend on the number of shards.
  shard(const parameter_layout& layout, std::uint32_t index, std::uint64_t seed,
        const optimizer_options& options, std::shared_ptr<device_queue> at = std::make_shared<host_queue>());
  /// Makes version 0 of `first`, float32[range of the shard].
  shard(const parameter_layout& layout, std::uint32_t index, std::span<const float> first,
        const optimizer_options& options, std::shared_ptr<device_queue> at = std::make_shared<host_queue>());

  shard(shard&&) noexcept = default;
  ~shard() { finish(); } ///< waits for the work that is queued

  shard_index index() const noexcept { return {index_}; }
  /// The updates of these weights so far, including those that workers made in the shared block of hogwild.
  version_number version() const noexcept { return version_; }
  std::uint64_t updates() const noexcept { return updates_; } ///< the updates that this shard made itself
  mailgrad::snapshot snapshot() const { return mailgrad::snapshot(current_, written_); }
  /// The same values on the host, when the event has passed. They are copied only from a GPU.
  mailgrad::snapshot host_snapshot() { return on_host(snapshot()); }
  /// The same, but it waits for the queue, where memory for other copies is lacking and an actor ends.
  mailgrad::snapshot host_snapshot_at_end();
  /// What load() would copy to the GPU, in the same way. The version grows; the weights here stay.
  mailgrad::snapshot host_snapshot_at_end(const gpu_block& block, std::uint64_t updates);
  /// The same of any snapshot of this shard; empty for an empty one.
  mailgrad::snapshot on_host(const mailgrad::snapshot& values);
  /// A gradient that this shard can read: `g`, or a copy of the shard's part of one that lies on the host, in
  /// memory that copies to a GPU do not have to wait for.
  /// Errors  device_error: a gradient with rows of tables or with addends, for a shard on a GPU.
  std::shared_ptr<const gradient> reachable(std::shared_ptr<const gradient> g);
  mailgrad::snapshot reachable(const mailgrad::snapshot& values); ///< the same for weights of this shard
  const std::shared_ptr<device_queue>& at() const noexcept { return at_; }
  /// Waits until the device queue has done what is queued, or the GPU is lost. Who has memory that the device
  /// queue reads or writes calls this before that memory goes.
  void finish() noexcept;
  /// Whether it has tables on a GPU. Rows of their gradients are not added up before an update.
  bool has_tables_there() const noexcept { return !tables_.empty() && is_on_gpu(*at_); }
  /// The number of floats that get dense gradients; they come first.
  std::size_t dense_size() const noexcept { return dense_size_; }
  /// The values of `g` for the dense part of this shard, without addends.
  std::span<const float> part_of(const gradient& g) const;
  /// The optimiser's state of this name, for the dense part; empty if there is none. It is for kernels on the
  /// shard's device queue, as part_of() is.
  std::span<const float> state(std::string_view name) const;
  std::string_view rule() const noexcept { return optimizer_->name(); } ///< of updates
  double base_learning_rate() const noexcept { return base_learning_rate_; }
  const optimizer_options& rule_options() const noexcept { return options_; }
  /// The variables, if all lie whole in this shard; else none.
  const std::vector<shard_variable>& whole_variables() const noexcept { return whole_variables_; }
  /// The learning rate of the next update.
  double learning_rate() const { return optimizer_->learning_rate(version_.value + 1); }

  /// The root mean square of the differences between the weights and `older` ones of this shard, which Barkai
  /// et al. call the gap. It is exactly 0 if they are the same.
  /// Source  Barkai, Hakimi & Schuster, "Gap Aware Mitigation of Gradient Staleness", ICLR 2020.
  /// Errors  device_error: the weights lie on a GPU.
  double distance_to(const mailgrad::snapshot& older) const;
  /// What distance_to() makes of it, float64[1] on the host, which an event recorded after this call tells
  /// of.
  std::shared_ptr<const memory> measure_distance(const mailgrad::snapshot& older);
  double distance_of(const memory& measured) const;
  /// Lets what is queued from now on read a gradient that a GPU may still compute.
  void wait_for(const gradient& g) { at_->wait_for(g.ready); }
  /// Adds the shard's part of `what` to `sum`, scaled. The shard holds `what` until the queue has read it.
  void add_to(gradient_sum& sum, const contribution& what);
  /// Holds `read` until the device queue has done the work queued so far, which reads it.
  void hold(std::shared_ptr<const void> read);

  /// Makes version t+1 from t by one step of the optimiser on the scaled sum of `gradients`, which is
  /// multiplied by `share`: 1/N for their mean. The learning rate is multiplied by `rate`. Weights that no
  /// gradient covers and rows that none lists do not change, and neither does their state. Without any
  /// gradient, the step is that of a gradient of zero.
  void update(std::span<const contribution> gradients, double rate = 1, float share = 1);

  /// update() in two halves, so that other threads may compute parts of `work` in between. end_update() may
  /// be called when all parts are computed; no other member may be called before that. `threads` is how many
  /// threads may help. `self` keeps the shard alive while helpers hold `work`; null if there are none.
  void begin_update(parallel_update& work, std::span<const contribution> gradients, double rate = 1,
                    std::size_t threads = 1, std::shared_ptr<const void> self = nullptr, float share = 1);
  void end_update(parallel_update& work);
  /// Whether several threads can share an update: it has more than one part, and the optimiser divides().
  bool divides() const noexcept { return dense_size_ > parallel_update::part_size && threads_help(); }
  /// Copies the weights to their place in the block of the whole model, and back. No worker may write to the
  /// block meanwhile. load() adds `updates` to the version.
  void save(hogwild_store& store) const {
    store.store(range_.begin, snapshot().on_host().first(range_.size()));
  }
  void load(const hogwild_store& store, std::uint64_t updates);
  /// The same with its piece of a block on the GPU. Only load() may be called while workers still write; it
  /// then has what they had queued before.
  void save(gpu_block& block);
  void load(const gpu_block& block, std::uint64_t updates);

  /// Writes or reads the weights, their version, and the optimiser's state. The state is copied; the weights
  /// are held until they are in a file, and the next update writes elsewhere meanwhile. What lies on a GPU
  /// is copied, and has come when an event recorded after this call has passed.
  /// Errors  archive_error; device_error.
  void keep(archive& a);
  /// Writes a snapshot of this shard in the same way. restored() reads it.
  void keep(archive& a, std::string_view name, const mailgrad::snapshot& values);
  /// A snapshot of values that were kept: float32[range of the shard], in memory of its own.
  /// Errors  archive_error for another length.
  mailgrad::snapshot restored(const archived_array& values);
  /// The part of the model's flat vector that gets dense gradients and lies in this shard.
  shard_range dense_range() const noexcept { return {range_.begin, range_.begin + dense_size_}; }

private:
  /// The memory that work which may still be running reads.
  struct retired {
    device_event until;
    std::shared_ptr<const void> from;
    std::vector<contribution> gradients;
  };

  device_event fill(memory& to, const archived_array& values);
  mailgrad::snapshot copied_at_end(const memory& values);
  bool threads_help() const noexcept { return !is_on_gpu(*at_) && optimizer_->divides(); }
  update_number next_update() const noexcept;
  void require_dense(std::size_t floats, std::size_t first) const;
  void require_fitting(const contribution& c) const;
  void require_dense_alone(const gradient& g) const;
  std::uint64_t& version_in(const memory& b);
  void forget_versions() noexcept { versions_.clear(); }
  void update_tables(const parallel_update& work);
  void take_buffers_for_tables(const parallel_update& work);
  void update_tables_there(const parallel_update& work);
  void catch_up_there(const memory& target, const float* from, float* to);
  void list_rows_there(const table_piece& t, const parallel_update& work);
  std::shared_ptr<memory> block_to_write();
  void let_go_of_retired();
  void add_rows_to(gradient_sum& sum, const gradient_rows& part, float scale) const;
  sparse_update rows_for(const table_piece& t, std::span<float> weights, double rate) const;
  void find_cuts(std::span<const contribution> gradients);
  void cut_at(const std::shared_ptr<const coverage>& covered);
  void add_part(parallel_update& work, const shard_range& where) const;

  std::uint32_t index_;
  shard_range range_;
  std::size_t weight_count_;
  std::size_t dense_size_;
  std::vector<table_piece> tables_;
  std::shared_ptr<device_queue> at_;
  object_pool<memory> blocks_;
  object_pool<gradient> brought_; ///< copies of gradients that lie on the host
  std::shared_ptr<memory> current_;
  device_event written_; ///< passes when the update that made `current_` is done
  /// Taken before an update queues anything, so that the event of its end needs no memory.
  device_event spare_event_;
  version_number version_;
  std::uint64_t updates_ = 0;
  std::unique_ptr<optimizer> optimizer_;
  double base_learning_rate_;
  optimizer_options options_;
  std::vector<shard_variable> whole_variables_;
  std::unique_ptr<parallel_update> alone_; ///< for an update by one thread
  std::vector<std::size_t> cuts_;          ///< of the dense part; between two cuts the same gradients count
  std::deque<retired> retired_;            ///< in the order of their events
  memory distance_;                        ///< on a GPU: the last that was measured
  /// The version of the tables in each block of the pool.
  std::vector<std::pair<const memory*, std::uint64_t>> versions_;
  row_log log_;
  gpu_row_log log_there_;                ///< the same on a GPU
  std::vector<row_copy> whole_, copies_; ///< of all tables, and those by which a block there catches up
  row_join rows_;                        ///< the rows of all gradients for the table being updated
  std::vector<row_gradient> rows_there_; ///< the same on a GPU
  growing_buffer order_;                 ///< for their order
};

} // namespace mailgrad
