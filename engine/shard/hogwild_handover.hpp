#pragma once

#include <mailgrad/engine/shard/shard.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <cstdint>
#include <memory>
#include <utility>

namespace mailgrad {

/// The time in which the weights of a shard are those of the block that hogwild's workers write into. It
/// begins and ends while no worker computes.
///
/// Threads one caller at a time.
class hogwild_handover {
public:
  hogwild_handover(std::shared_ptr<shard> weights, std::shared_ptr<hogwild_store> store)
      : weights_(std::move(weights)), store_(std::move(store)) {}

  /// Hands the weights over.
  void begin() {
    weights_->save(*store_);
    store_->count_elsewhere(weights_->updates());
    version_ = store_->version();
    active_ = true;
  }

  /// The shard as workers have left the block: the version after as many updates as they made.
  void fetch() {
    if (!active_) return;
    const std::uint64_t updates = store_->version() - std::exchange(version_, store_->version());
    if (updates > 0) weights_->load(*store_, updates);
  }

  /// Takes them back.
  void end() {
    fetch();
    active_ = false;
  }

private:
  std::shared_ptr<shard> weights_;
  std::shared_ptr<hogwild_store> store_; ///< null where no policy is hogwild
  std::uint64_t version_ = 0;            ///< of the block, when both were last the same
  bool active_ = false;
};

} // namespace mailgrad
