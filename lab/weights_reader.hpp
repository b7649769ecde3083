#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/graph/parameter_layout.hpp>
#include <mailgrad/tensor/hogwild_store.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace mailgrad::lab {

/// The weights of a run at one moment.
struct read_weights {
  std::vector<float> values{};
  std::uint64_t updates = 0; ///< of the shard that made most
};

/// Reads the weights of a run in virtual time, between two events.
///
///     idle --test_weights--> asking --shard_read of every shard--> idle
/// Guarantees  `to` has the weights when no message is under way any more, if every shard lives.
class weights_reader {
public:
  static constexpr const char* name = "mailgrad.weights-reader";

  /// `store` is the block that workers share, or null; it outlives the actor.
  weights_reader(caf::event_based_actor* self, std::shared_ptr<const parameter_layout> layout,
                 std::vector<caf::actor> shards, const hogwild_store* store, std::shared_ptr<read_weights> to)
      : self_(self), layout_(std::move(layout)), shards_(std::move(shards)), store_(store),
        to_(std::move(to)) {}
  caf::behavior make_behavior();

private:
  void on_test();
  void on_read(const shard_read& x);

  caf::event_based_actor* self_;
  std::shared_ptr<const parameter_layout> layout_;
  std::vector<caf::actor> shards_; ///< empty if the whole run is hogwild
  const hogwild_store* store_;
  std::shared_ptr<read_weights> to_;
};

} // namespace mailgrad::lab
