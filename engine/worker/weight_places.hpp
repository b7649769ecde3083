#pragma once

#include <mailgrad/tensor/memory.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace mailgrad {

/// Where a shard is for which a worker on a card computes gradients. Another card counts as the host, by way
/// of which all goes.
enum class weight_place : std::uint8_t { host, same_card };

/// Where all of them are: in one place, or each in its own.
class weight_places {
public:
  weight_places(weight_place all) : all_(all) {}
  weight_places(std::vector<weight_place> by_shard) : by_shard_(std::move(by_shard)) {}

  bool on_card(std::uint32_t shard) const {
    return (shard < by_shard_.size() ? by_shard_[shard] : all_) == weight_place::same_card;
  }
  /// The same for each of so many shards.
  std::vector<bool> on_card_by_shard(std::size_t shards) const {
    std::vector<bool> near(shards);
    for (std::uint32_t s = 0; s < shards; ++s) near[s] = on_card(s);
    return near;
  }

private:
  weight_place all_ = weight_place::host;
  std::vector<weight_place> by_shard_;
};

/// The weights of a shard for one step of a worker that spans several devices: values on the host, which
/// `owner` keeps alive, or a snapshot on the card of all these devices.
struct weight_view {
  const float* values = nullptr;
  std::shared_ptr<const void> owner;
  snapshot on_card{};
};

} // namespace mailgrad
