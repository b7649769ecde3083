#pragma once

#include <mailgrad/engine/model/gradient.hpp>
#include <mailgrad/engine/model/object_pool.hpp>
#include <mailgrad/graph/parameter_layout.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace mailgrad::remote {

/// Room for the gradients that arrive at shards of this process. All workers share it, so that it grows with
/// the gradients that are there at once and not with the workers: most of these compute.
///
/// A gradient has room for all weights, but only the part of one shard arrives in it. Memory that nobody
/// writes to is not taken from the machine, so nothing sets it to zero.
/// Threads that of the network. Who holds a gradient may let it go on any.
class gradient_rooms {
public:
  explicit gradient_rooms(std::shared_ptr<const parameter_layout> layout);

  /// The number of shards.
  std::size_t shards() const noexcept { return by_shard_.size(); }
  std::shared_ptr<gradient> take(std::size_t shard) { return by_shard_[shard].take(); }
  /// How many gradients there is room for.
  std::size_t count() const noexcept;

private:
  std::vector<object_pool<gradient>> by_shard_;
};

} // namespace mailgrad::remote
