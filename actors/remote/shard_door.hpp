#pragma once

#include <mailgrad/actors/remote/door_of_shards.hpp>
#include <mailgrad/actors/remote/gradient_form.hpp>
#include <mailgrad/actors/remote/link.hpp>
#include <mailgrad/actors/remote/refusal_news.hpp>
#include <mailgrad/actors/remote/transit.hpp>
#include <mailgrad/net/server_end.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace mailgrad::remote {

struct shard_door_options {
  std::shared_ptr<net::network> network;
  std::string listen; ///< HOST:PORT by which workers find it; port 0: a free one
  net::timing times{};
  std::shared_ptr<net::shared_heap> heap{}; ///< in which the shards lie; null: it lends nothing
  run_id run{};
  std::uint32_t seats = 1;   ///< the most workers
  std::uint32_t devices = 1; ///< of each worker
  std::shared_ptr<const parameter_layout> layout;
  wire_format wire{}; ///< of gradients
  std::shared_ptr<const time_source> time;
  std::map<std::uint32_t, caf::actor> shards; ///< of this process, by index
  bool are_ours = true;                       ///< these are Mailgrad's, and keep no messages
  std::shared_ptr<gradient_credit> credit{};  ///< that workers share for gradients of these; or null
  caf::actor coordinator;                     ///< stands in for that of the run
  /// Is told who comes and goes.
  std::shared_ptr<guests_of_door> guests = std::make_shared<guests_of_door>();
  /// Called with one line of words for who is refused, from the network's thread. It must not block.
  std::function<void(const std::string&)> on_event{};
};

/// Lets the workers of a run reach the shards of this process.
///
/// Of a worker that is lost here the coordinator is told, and ends it for the whole run. Of each end of a
/// connection with a worker it is told in the name of each shard, which it then lets know.
/// Threads one owner; the events come on the network's thread.
class shard_door final : net::doorkeeper {
public:
  /// Listens.
  ///
  /// Errors  std::invalid_argument, std::system_error as the network's listen(); std::invalid_argument for an
  ///         address such as 0.0.0.0, to which nobody can connect.
  shard_door(shard_door_options options, caf::actor_system& system);
  /// Ends all sessions. Nothing more is called then.
  ~shard_door();
  shard_door(const shard_door&) = delete;
  shard_door& operator=(const shard_door&) = delete;

  const std::string& address() const noexcept { return address_; }

private:
  struct guest {
    net::welcome terms;
    std::shared_ptr<link> by;
  };

  net::session_events& let_in(net::session& s, const std::string& from) override;
  void turned_away(const net::refusal& why, const std::string& from) override;
  void on_joined(std::uint64_t session);
  void on_ended(std::uint64_t session, const net::ending& why);

  shard_door_options options_;
  caf::actor_system& system_;
  std::shared_ptr<gradient_rooms> rooms_;
  bounds_at_door bounds_;
  std::string address_;
  std::map<std::uint64_t, guest> guests_; ///< by session; of the network's thread
  refusal_news refused_;                  ///< of the network's thread
  std::unique_ptr<net::server_end> end_;
};

} // namespace mailgrad::remote
