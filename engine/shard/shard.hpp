#pragma once

#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/engine/model/row_join.hpp>
#include <mailgrad/engine/shard/gradient_sum.hpp>
#include <mailgrad/engine/shard/parallel_update.hpp>
#include <mailgrad/engine/shard/row_log.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/optimizer.hpp>
#include <mailgrad/tensor/block.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>
#include <mailgrad/tensor/stream.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad {

/// One shard of a model: its weights as immutable versions, and the optimiser that makes the next from the
/// last.
///
/// An update writes in place when nobody holds the weights, else into a spare block: the dense part costs the
/// same memory traffic either way. Of a sparse table only rows are copied that were written since the spare
/// was the latest (row_log), and all of it the first time.
/// Shapes  a snapshot is float32[range of the shard], laid out as parameter_layout has it.
/// Errors  shape_error, std::bad_alloc; nothing has changed then.
/// Threads  one caller at a time; holders of snapshots read them on any thread.
class shard {
public:
  /// Version 0: the first values of the variables, the same for every cut into shards.
  shard(const parameter_layout& layout, std::uint32_t index, std::uint64_t seed,
        const optimizer_options& options);

  std::uint32_t index() const noexcept { return index_; }
  /// Updates of these weights so far, those included that others made in the shared block of hogwild.
  std::uint64_t version() const noexcept { return version_; }
  /// Those of them that were made here.
  std::uint64_t updates() const noexcept { return updates_; }
  std::shared_ptr<const block> snapshot() const noexcept { return current_; }
  /// Floats that get dense gradients; they come first.
  std::size_t dense_size() const noexcept { return dense_size_; }
  /// What of `g` concerns the dense part of this shard.
  std::span<const float> part_of(const gradient& g) const;
  /// A state of the optimiser, for the dense part; empty if it has none of that name.
  std::span<const float> state(std::string_view name) const;
  /// The name of its update rule.
  std::string_view rule() const noexcept { return optimizer_->name(); }
  /// Before any schedule.
  double base_learning_rate() const noexcept { return base_learning_rate_; }
  /// Of the next update.
  double learning_rate() const { return optimizer_->learning_rate(version_ + 1); }

  /// How far the weights are from `older` ones of this shard, as the root of the mean square over all
  /// weights: what Barkai et al. call the gap. Exactly 0 if they are the same.
  /// Source  Barkai, Hakimi & Schuster, "Gap Aware Mitigation of Gradient Staleness", ICLR 2020.
  double distance_to(const block& older) const;

  /// Adds what of `what` concerns this shard to `sum`, scaled.
  void add_to(gradient_sum& sum, const contribution& what) const;

  /// Version t to t+1, by one step of the optimiser on the scaled sum of `gradients`, its learning rate times
  /// `rate`. What none of them covers stays as it is, in weights and in state, as rows of tables do that none
  /// lists; no gradients at all are a gradient of zero.
  void update(const stream& s, std::span<const contribution> gradients, double rate = 1);

  /// update(), so that others may compute parts of it: from the end of begin_update() until the last part is
  /// computed, which end_update() demands. Nothing else is called in between. `threads` is how many may come;
  /// `self` keeps the shard alive for those who hold `work`; null if nobody does.
  void begin_update(parallel_update& work, std::span<const contribution> gradients, double rate = 1,
                    std::size_t threads = 1, std::shared_ptr<const void> self = nullptr);
  void end_update(const stream& s, parallel_update& work);
  /// Whether that is worth while: there is more than one part, and its optimiser divides().
  bool divides() const noexcept { return dense_size_ > parallel_update::part_size && optimizer_->divides(); }

  /// The weights to their place in a block of the whole model, which nobody writes to meanwhile, and back:
  /// they are then the version after `updates` more.
  void save(hogwild_store& store) const;
  void load(const hogwild_store& store, std::uint64_t updates);

private:
  struct table {
    std::size_t variable;
    std::size_t width;
    std::size_t offset; ///< of its first row here, in floats from the shard's start
    std::int32_t row_begin;
    std::int32_t row_end;
  };

  update_number next_update() const noexcept;
  void require_dense(const block& values, std::size_t first) const;
  void require_fitting(const contribution& c) const;
  void find_tables(const parameter_layout& layout);
  std::uint64_t& version_in(const block& b);
  void update_tables(const stream& s, std::span<const contribution> gradients, block& target, double rate);
  void note_rows(const table& t, std::span<const std::int32_t> rows);
  void add_rows_to(gradient_sum& sum, const gradient_rows& part, float scale) const;
  sparse_update rows_of(const table& t, std::span<const contribution> gradients);
  void find_cuts(std::span<const contribution> gradients);
  void cut_at(const std::shared_ptr<const coverage>& covered);
  void add_part(parallel_update& work, const shard_range& where) const;

  std::uint32_t index_;
  shard_range range_;
  std::size_t weight_count_;
  std::size_t dense_size_; ///< floats of the shard that get dense gradients; they come first
  std::vector<table> tables_;
  object_pool<block> blocks_;
  std::shared_ptr<block> current_;
  std::uint64_t version_ = 0;
  std::uint64_t updates_ = 0;
  std::unique_ptr<optimizer> optimizer_;
  double base_learning_rate_;
  std::unique_ptr<parallel_update> alone_; ///< an update by one thread
  std::vector<std::size_t> cuts_; ///< of the dense part: between two neighbours the same gradients count
  std::vector<std::pair<const block*, std::uint64_t>>
      versions_; ///< that the tables in each block of the pool have
  row_log log_;
  row_join rows_; ///< of the table at hand, as all gradients list them
};

} // namespace mailgrad
