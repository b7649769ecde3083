#pragma once

#include <mailgrad/actors/remote/gradient_credit.hpp>
#include <mailgrad/actors/remote/link.hpp>
#include <mailgrad/actors/remote/transit.hpp>
#include <mailgrad/engine/account/wait_named.hpp>
#include <mailgrad/net/server_end.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

// What the doors of a server and of a parameter host have in common: workers bring gradients to shards there.

namespace mailgrad::remote {

/// What bounds the gradients that workers bring; null: nothing does.
struct bounds_at_door {
  std::shared_ptr<transit> on_way{};         ///< those that arrive
  std::shared_ptr<gradient_credit> credit{}; ///< those that wait for their turn in a sum

  /// Lets workers begin bodies by these bounds.
  void apply(net::server_options& terms) const;
  /// Has the worker of a session share credit, by the link that it comes by.
  void share_credit(std::uint64_t session, rank worker, const std::shared_ptr<link>& by) const;
  /// That session has ended.
  void end(std::uint64_t session) const;
};

/// What is waited for between this process and the one at the other end of `by`: credit, a turn in a sum, and
/// room for its gradients, of which it sends so many in a step. `where` says who lacks room: "the server".
/// Threads any.
std::vector<wait_named> waits_at_door(std::uint64_t session, const link& by, const net::member& who,
                                      const bounds_at_door& bounds, std::size_t gradients_a_step,
                                      const std::string& where);

/// What people call the process that holds these shards: "the parameter host of shards 0, 2".
std::string name_of_host(std::span<const std::uint32_t> shards);

/// Those who have come to the door of a parameter host, for its first shard, which tells the coordinator what
/// they wait for.
/// Threads any.
class guests_of_door {
public:
  /// The door is open to these shards.
  void open(bounds_at_door bounds, std::vector<std::uint32_t> shards);
  void add(std::uint64_t session, const net::member& who, std::shared_ptr<link> by);
  void remove(std::uint64_t session);

  std::vector<wait_named> waits() const;

private:
  struct guest {
    net::member who;
    std::shared_ptr<link> by;
  };

  mutable std::mutex mutex_;
  bounds_at_door bounds_;
  std::vector<std::uint32_t> shards_;
  std::map<std::uint64_t, guest> guests_; ///< by session
};

} // namespace mailgrad::remote
