#pragma once

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/client_side.hpp>
#include <mailgrad/actors/remote/shard_door.hpp>
#include <mailgrad/actors/shard/own_parameter_actor.hpp>
#include <mailgrad/engine/plan/known_plugins.hpp>
#include <mailgrad/engine/plan/shard_terms.hpp>
#include <mailgrad/engine/worker/step_timer.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad::remote {

struct shard_host_options {
  std::shared_ptr<link> by;              ///< to the server
  std::shared_ptr<net::network> network; ///< by which workers come
  std::string listen;                    ///< where
  std::function<net::timing()> times;    ///< those that the server dictates, once it has been joined
  std::shared_ptr<const time_source> time;
  /// Called when the shards are there, with their numbers and the address where workers find them.
  std::function<void(const std::vector<std::uint32_t>& shards, const std::string& address)> on_begin;
  std::function<void(const std::string&)> on_event{}; ///< as in shard_door_options
  known_plugins plugins{};
  std::shared_ptr<const own_parameter_actor> parameter_actor{}; ///< null: Mailgrad's
  std::shared_ptr<step_timer> timer{};                          ///< as in parameter_actor_options
};

/// The host of a process that holds shards. When the server has told the terms, it spawns their parameter
/// actors among far_actors of the others, and opens a door for workers.
///
///     waiting --terms_told--> serving --the session with the server has ended--> closed
///        \--terms that it cannot read: leaves with words--/
class shard_host {
public:
  static constexpr const char* name = "mailgrad.shard-host";

  shard_host(caf::event_based_actor* self, shard_host_options options);
  caf::behavior make_behavior();

private:
  void begin(const terms_told& x);
  void require_parameter_actor(const std::string& wanted) const;
  void spawn_shards(std::vector<shard_terms> terms, block_source blocks, const shard_door_options& door);
  void end();

  caf::event_based_actor* self_;
  shard_host_options options_;
  std::map<std::uint32_t, caf::actor> shards_; ///< of this process
  std::unique_ptr<shard_door> door_;
};

} // namespace mailgrad::remote
