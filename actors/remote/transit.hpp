#pragma once

#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/optim/identity.hpp>

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
///
/// A worker whose weights are overtaken by many others on their way reads slowly. What leaves to such workers
/// has half of the room for both kinds, and the others have the rest: while more would leave, further
/// gradients of slow readers wait for each other. Weights that others take as well count for these. Readers
/// that become slow while weights are under way to them may fill the room of the others, who then have half
/// as much again. The weights with which workers join wait for nothing and count beside all that. Nobody
/// knows of a worker how it reads before its first weights have left, so it counts as slow until then.
/// Guarantees  has_room() comes true again as soon as shards have read what came and workers have taken what
///             left. It waits for no gradient that a policy keeps, such as those of a barrier.
/// Units       bytes.
/// Threads     any.
class transit : public std::enable_shared_from_this<transit> {
public:
  /// `weights` is W, and `largest` the size of a gradient of the largest of `shards` shards.
  transit(std::uint64_t weights, std::uint64_t largest, std::size_t shards = 1) noexcept;

  /// Whether another gradient of this worker may begin to arrive.
  bool has_room(rank worker);
  /// Whether has_room() may hold of anybody.
  bool has_any_room();
  /// Is called when there is room again after one of these has said no; empty: nothing is. It must not block.
  void when_room(std::function<void()> call);

  /// A gradient begins to arrive. Its room is taken as long as what this returns is held.
  std::shared_ptr<const void> arriving(rank from, std::uint64_t bytes);
  /// These values are about to leave to a worker. What this returns holds them, and their room with them.
  /// Values that leave to several workers count once.
  std::shared_ptr<const void> leaving(rank to, std::shared_ptr<const void> values, std::uint64_t bytes);

  std::uint64_t arriving_bytes() const;
  std::uint64_t leaving_bytes() const;
  /// Whom a worker waits for that finds no room: "the shards to read gradients of workers 0, 3, and for
  /// worker 1 to take weights". Empty if there is room.
  std::string who_fills_it(rank worker) const;

private:
  struct gradient_room;
  struct weights_room;
  struct departure;
  /// What arrives from a worker.
  struct gradients {
    std::size_t count = 0;
    std::uint64_t bytes = 0;
  };
  /// Values that leave.
  struct version {
    std::weak_ptr<const weights_room> room{};
    std::uint64_t bytes = 0;
    std::map<rank, std::size_t> to{}; ///< how often each worker has them under way
  };
  /// A worker to which weights leave.
  struct reader {
    std::size_t under_way = 0; ///< answers that leave to it
    std::uint64_t since = 0;   ///< how many had left to all when the oldest of these began
    bool is_slow = true;       ///< the last that left was overtaken by many, or none has left yet
  };

  bool fits() const noexcept;
  bool is_slow(rank worker) const;
  std::uint64_t most_overtaking() const noexcept;
  bool fits_slow() const;
  bool fits_fast() const;
  bool goes_to_slow_alone(const version& v) const;
  void call_if_room();
  void has_arrived(rank from, std::uint64_t bytes);
  void has_departed(rank to, const void* values);
  void has_left(const void* values, std::uint64_t bytes, bool of_joins);

  const std::uint64_t weights_, most_arriving_, most_together_, largest_;
  const std::size_t shards_;
  mutable std::mutex mutex_; ///< guards the members below
  std::uint64_t arriving_ = 0, leaving_ = 0;
  std::uint64_t leaving_to_joins_ = 0; ///< of that, to workers that have just joined alone
  bool refused_ = false;               ///< somebody was told that there is none since it last called
  std::function<void()> call_;
  std::map<rank, gradients> arrives_;
  std::map<const void*, version> leaves_; ///< by the values
  std::map<rank, reader> readers_;        ///< all to whom weights have left
  std::uint64_t departed_ = 0;            ///< answers that have left
};

/// For a process that holds these shards and listens there. Null for an address by which processes share
/// memory: they lend each other what is in transit, and the heap bounds that.
std::shared_ptr<transit> transit_by(const std::string& address, const parameter_layout& layout,
                                    const std::vector<std::uint32_t>& shards);

} // namespace mailgrad::remote
