#pragma once

#include <mailgrad/tensor/snapshot.hpp>

#include <memory>

namespace mailgrad {

/// The weights of a shard for one step of a worker that spans several devices: values on the host, which
/// `owner` keeps alive, or a snapshot on the card of all these devices.
struct weight_view {
  const float* values = nullptr;
  std::shared_ptr<const void> owner;
  snapshot on_card{};
};

} // namespace mailgrad
