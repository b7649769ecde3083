#pragma once

#include <mailgrad/engine/shard/gpu_block.hpp>
#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace mailgrad {

/// Hands the weights of a shard to the block that hogwild's workers write to, and takes them back. No worker
/// computes then.
class hogwild_handover {
public:
  /// `on_gpu`: the block is there, and the store only counts; null: the store is the block.
  hogwild_handover(std::shared_ptr<shard> weights, std::shared_ptr<hogwild_store> store,
                   std::shared_ptr<gpu_block> on_gpu = nullptr)
      : weights_(std::move(weights)), store_(std::move(store)), on_gpu_(std::move(on_gpu)) {}
  /// Writes the shard's weights to the block.
  void begin() {
    if (on_gpu_)
      weights_->save(*on_gpu_);
    else
      weights_->save(*store_);
    store_->count_elsewhere(weights_->updates());
    version_ = store_->version();
    active_ = true;
  }

  /// Copies the block's weights to the shard. Its version grows by the updates that the workers made there.
  void fetch() {
    if (!active_) return;
    const std::uint64_t now = store_->version(); // once, since workers may count on
    const std::uint64_t updates = now - version_;
    if (updates == 0) return;
    if (on_gpu_)
      weights_->load(*on_gpu_, updates);
    else
      weights_->load(*store_, updates);
    version_ = now; // not before: memory for it may be lacking
  }

  /// Whether the weights are in the block.
  bool active() const noexcept { return active_; }
  /// What readers on the host copy, while workers write; empty if that is the store.
  snapshot racing_values() const {
    if (!on_gpu_) return {};
    const gpu_block::piece mine = on_gpu_->of(weights_->index().value);
    return snapshot(mine.values, mine.ready);
  }

  /// The latest values, in memory of the host alone, since that of the GPU is lacking. The shard's version
  /// grows as by fetch(). To be called when the run has ended: it waits for the GPU.
  snapshot values_at_end() {
    const std::uint64_t now = active_ && on_gpu_ ? store_->version() : version_;
    const std::uint64_t updates = now - std::exchange(version_, now);
    return updates == 0 ? weights_->host_snapshot_at_end()
                        : weights_->host_snapshot_at_end(*on_gpu_, updates);
  }

  /// Copies the weights back, and ends the use of the block.
  void end() {
    fetch();
    active_ = false;
  }

private:
  std::shared_ptr<shard> weights_;
  std::shared_ptr<hogwild_store> store_; ///< null where no policy is hogwild
  std::shared_ptr<gpu_block> on_gpu_;
  std::uint64_t version_ = 0; ///< of the block, when it last equalled the shard
  bool active_ = false;
};

} // namespace mailgrad
