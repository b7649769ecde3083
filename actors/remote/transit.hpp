#pragma once

#include <mailgrad/graph/parameter_layout.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mailgrad::remote {

/// How much memory a process with shards has for what is in transit: gradients that arrive, and weights that
/// leave. The bound does not grow with the workers. A gradient begins to arrive only where there is room for
/// it and for the weights that will answer it; until then it stays with its worker.
///
/// With shards of W bytes in all, gradients have W + 16 MiB, and both kinds together 2 W + 24 MiB. So one
/// gradient can always arrive while the weights of one version leave.
/// Guarantees  has_room() comes true again as soon as shards have read what came and workers have taken what
///             left. It waits for no gradient that a policy keeps, such as those of a barrier.
/// Units       bytes.
/// Threads     any.
class transit : public std::enable_shared_from_this<transit> {
public:
  /// `weights` is W, and `largest` the size of a gradient of the largest shard.
  transit(std::uint64_t weights, std::uint64_t largest) noexcept;

  /// Whether another gradient may begin to arrive.
  bool has_room();
  /// Is called when there is room again after has_room() has said no; empty: nothing is. It must not block.
  void when_room(std::function<void()> call);

  /// A gradient begins to arrive. Its room is taken as long as what this returns is held.
  std::shared_ptr<const void> arriving(std::uint64_t bytes);
  /// These values are about to leave. What this returns holds them, and their room with them. Values that
  /// leave to several workers count once.
  std::shared_ptr<const void> leaving(std::shared_ptr<const void> values, std::uint64_t bytes);

  std::uint64_t arriving_bytes() const;
  std::uint64_t leaving_bytes() const;

private:
  struct gradient_room;
  struct weights_room;

  bool fits() const noexcept;
  void call_if_room();
  void has_arrived(std::uint64_t bytes);
  void has_left(const void* values, std::uint64_t bytes);

  const std::uint64_t most_arriving_, most_together_, largest_;
  mutable std::mutex mutex_; ///< guards the members below
  std::uint64_t arriving_ = 0, leaving_ = 0;
  bool refused_ = false; ///< has_room() has said no since it last called
  std::function<void()> call_;
  std::map<const void*, std::weak_ptr<const void>> leaves_; ///< by the values
};

/// For a process that holds these shards and listens there. Null for an address by which processes share
/// memory: they lend each other what is in transit, and the heap bounds that.
std::shared_ptr<transit> transit_by(const std::string& address, const parameter_layout& layout,
                                    const std::vector<std::uint32_t>& shards);

} // namespace mailgrad::remote
