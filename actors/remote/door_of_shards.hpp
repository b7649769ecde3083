#pragma once

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

/// Lets bodies of workers begin where `on_way` has room.
void bound_by(const std::shared_ptr<transit>& on_way, net::server_options& terms);

/// What is waited for between this process and the one at the other end of `by`: credit, and room for its
/// gradients, of which it sends so many in a step. `where` says who lacks room: "the server".
/// Threads any.
std::vector<wait_named> waits_at_door(const link& by, const net::member& who, const transit* on_way,
                                      std::size_t gradients_a_step, const std::string& where);

/// What people call the process that holds these shards: "the parameter host of shards 0, 2".
std::string name_of_host(std::span<const std::uint32_t> shards);

/// Those who have come to the door of a parameter host, for its first shard, which tells the coordinator what
/// they wait for.
/// Threads any.
class guests_of_door {
public:
  /// The door is open to these shards.
  void open(std::shared_ptr<transit> on_way, std::vector<std::uint32_t> shards);
  void add(std::uint64_t session, const net::member& who, std::shared_ptr<link> by);
  void remove(std::uint64_t session);

  std::vector<wait_named> waits() const;

private:
  struct guest {
    net::member who;
    std::shared_ptr<link> by;
  };

  mutable std::mutex mutex_;
  std::shared_ptr<transit> on_way_;
  std::vector<std::uint32_t> shards_;
  std::map<std::uint64_t, guest> guests_; ///< by session
};

} // namespace mailgrad::remote
