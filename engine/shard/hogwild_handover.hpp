#pragma once

#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace mailgrad {

/// Hands the weights of a shard to the block that hogwild's workers write to, and takes them back. Both
/// happen while no worker computes.
///
/// Threads one caller at a time.
class hogwild_handover {
public:
  hogwild_handover(std::shared_ptr<shard> weights, std::shared_ptr<hogwild_store> store)
      : weights_(std::move(weights)), store_(std::move(store)) {}

  /// Writes the shard's weights to the block.
  void begin() {
    weights_->save(*store_);
    store_->count_elsewhere(weights_->updates());
    version_ = store_->version();
    active_ = true;
  }

  /// Copies the block's weights to the shard. Its version grows by the updates that the workers made there.
  void fetch() {
    if (!active_) return;
    const std::uint64_t updates = store_->version() - std::exchange(version_, store_->version());
    if (updates > 0) weights_->load(*store_, updates);
  }

  /// Whether the weights are in the block.
  bool active() const noexcept { return active_; }

  /// Copies the weights back, and ends the use of the block.
  void end() {
    fetch();
    active_ = false;
  }

private:
  std::shared_ptr<shard> weights_;
  std::shared_ptr<hogwild_store> store_; ///< null where no policy is hogwild
  std::uint64_t version_ = 0;            ///< of the block, when it last equalled the shard
  bool active_ = false;
};

} // namespace mailgrad
