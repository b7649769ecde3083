#pragma once

#include <mailgrad/actors/remote/acceptor.hpp>
#include <mailgrad/actors/remote/client_side.hpp>
#include <mailgrad/actors/shard/custom_parameter_actor.hpp>
#include <mailgrad/engine/plan/terms.hpp>

namespace mailgrad::remote {

struct shard_acceptor_options {
  std::shared_ptr<net::network> network;
  std::string listen; ///< HOST:PORT by which workers find it; port 0: a free one
  net::timing times{};
  std::shared_ptr<net::shared_heap> heap{}; ///< in which the shards lie; null: it lends nothing
  run_id run{};
  std::uint32_t slots = 1;   ///< the most workers
  std::uint32_t devices = 1; ///< of each worker
  std::shared_ptr<const parameter_layout> layout;
  wire_format wire{}; ///< of gradients
  std::shared_ptr<const time_source> time;
  std::map<std::uint32_t, caf::actor> shards; ///< of this process, by index
  admission_bounds bounds{};                  ///< of gradients for these
  caf::actor coordinator;                     ///< stands in for that of the run
  /// Is told who comes and goes.
  std::shared_ptr<admitted_workers> admitted = std::make_shared<admitted_workers>();
  /// Called with one line of words for who is refused, from the network's thread. It must not block.
  std::function<void(const std::string&)> on_event{};
};

/// Lets the workers of a run reach the shards of this process.
///
/// Of a worker that is lost here the coordinator is told, and ends it for the whole run. Of each end of a
/// connection with a worker it is told in the name of each shard, which it then lets know.
/// Threads one owner; the events come on the network's thread.
class shard_acceptor final : net::doorkeeper {
public:
  /// Listens.
  ///
  /// Errors  std::invalid_argument, std::system_error as the network's listen(); std::invalid_argument for an
  ///         address such as 0.0.0.0, to which nobody can connect.
  shard_acceptor(shard_acceptor_options options, caf::actor_system& system);
  /// Ends all sessions. Nothing more is called then.
  ~shard_acceptor();
  shard_acceptor(const shard_acceptor&) = delete;
  shard_acceptor& operator=(const shard_acceptor&) = delete;

  const std::string& address() const noexcept { return address_; }

private:
  net::session_events& let_in(net::session& s, const std::string& from) override;
  void turned_away(const net::refusal& why, const std::string& from) override {
    if (!options_.on_event) return;
    if (const auto line =
            refused_.refused(fmt::format("refused {}: {}", from, why.words()), options_.network->now()))
      options_.on_event(*line);
  }
  void on_joined(const net::welcome& terms);
  void on_ended(const net::welcome& terms, const net::ending& why);

  shard_acceptor_options options_;
  caf::actor_system& system_;
  std::string address_;
  std::map<std::uint64_t, std::shared_ptr<channel>> admitted_; ///< by session; of the network's thread
  refusal_news refused_;                                       ///< of the network's thread
  std::unique_ptr<net::server_end> end_;
};

/// How a process holds shards of a run.
struct parameter_host_options {
  /// Where workers find the shards: HOST:PORT, an address of this machine that they can connect to, port 0: a
  /// free one; or memory:NAME.
  std::string listen = "127.0.0.1:0";
  /// What carries the bytes; null: shared memory for memory:NAME, else TCP, which then needs a loopback
  /// address.
  std::shared_ptr<net::network> network{};
  std::shared_ptr<const time_source> time = std::make_shared<machine_time>();
  /// Plug-ins and update rules of its own, of which the run may need some.
  known_plugins plugins{};
  /// The parameter actor of the program's own that the run has in place of Mailgrad's; null: none.
  std::shared_ptr<const custom_parameter_actor_kind> parameter_actor{};
  /// Called when the shards are there, and before the server hears of it, with their numbers and the address
  /// where workers find them, from a thread of the actors. The run waits for it to return.
  std::function<void(const std::vector<std::uint32_t>& shards, const std::string& address)> on_begin{};
  /// Called for every worker that is refused, with one line of words, from the network's thread. It must not
  /// block.
  std::function<void(const std::string&)> on_event{};
};

struct shard_host_options {
  std::shared_ptr<channel> by;         ///< to the server
  parameter_host_options holds;        ///< `network`: by which workers come
  std::function<net::timing()> times;  ///< those that the server dictates, once it has been joined
  std::shared_ptr<step_timer> timer{}; ///< as in parameter_actor_options
};

/// The host of a process that holds shards. When the server has told the terms, it spawns their parameter
/// actors among actor proxies of the others, and opens an acceptor for workers.
///
///     waiting --terms_given--> serving --the session with the server has ended--> closed
///        \--terms that it cannot read: leaves with words--/
class shard_host : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.shard-host";

  shard_host(caf::event_based_actor* self, shard_host_options options)
      : actor_part(self), options_(std::move(options)) {}
  caf::behavior make_behavior();

private:
  void begin(const terms_given& x);
  void require_parameter_actor(const std::string& wanted) const;
  void spawn_shards(std::vector<shard_terms> terms, block_source blocks,
                    const shard_acceptor_options& acceptor);
  void end() {
    acceptor_.reset();
    for (const auto& [s, shard] : shards_) messaging::send_anonymously(shard, give_up{});
    self_->quit();
  }

  shard_host_options options_;
  std::map<std::uint32_t, caf::actor> shards_; ///< of this process
  std::unique_ptr<shard_acceptor> acceptor_;
};

/// A process that holds shards of a run for its server, and takes gradients from the workers itself.
///
///     remote::parameter_host here("10.0.0.1:7000", {.listen = "10.0.0.2:0"});
///     here.wait();
///
/// The run cannot go on without it: if it ends first, the run fails in order.
/// Threads one owner.
class parameter_host {
public:
  /// Joins, which takes as long as a connection needs.
  ///
  /// Errors  remote::join_error: refused, nobody listens, or the connection ended first.
  parameter_host(const std::string& address, parameter_host_options options);
  /// Ends the session if it has not ended, and with it the run.
  ~parameter_host();
  parameter_host(const parameter_host&) = delete;
  parameter_host& operator=(const parameter_host&) = delete;

  /// "parameter host 0 (incarnation 1)"
  std::string name() const;
  /// Waits until the session has ended, but at most for `span`; true if it has.
  bool wait_for(std::chrono::milliseconds span);
  /// Waits for the end. Returns why: the reason `left` is that of a run that went well.
  net::ending wait();
  /// Leaves, which ends the run. Does not wait.
  void leave(const std::string& why);

private:
  class implementation;
  std::unique_ptr<implementation> self_;
};

} // namespace mailgrad::remote
