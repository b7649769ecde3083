#pragma once

#include <mailgrad/actors/remote/acceptor.hpp>
#include <mailgrad/actors/remote/member_handlers.hpp>
#include <mailgrad/actors/remote/serve_options.hpp>
#include <mailgrad/actors/worker/spawn_worker.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/plan/shard_terms.hpp>
#include <mailgrad/engine/plan/training_options.hpp>
#include <mailgrad/net/usual_network.hpp>

#include <condition_variable>

namespace mailgrad::remote {

/// The actors of a run that those of other processes talk to.
struct run_actors {
  worker_peers peers;
  caf::actor recorder{};  ///< null if the run is not recorded
  caf::actor evaluator{}; ///< null if it tests no weights before its end
  caf::actor observer{};  ///< is told who comes and goes; may be null
};

/// Lets workers of other processes into a run, parameter hosts, and people who watch it.
///
///     listening --all are here--> place_shards(), if there are parameter hosts: each is told its shards
///               --they are ready--> begin(): each worker is told its terms --end()--> closed
///
/// A worker's actor joins the shards and the coordinator as one of this process does: they get an actor_proxy
/// in its place. It finds the shards of a parameter host by a connection of its own to that process.
/// Threads one owner; the events come on the network's thread.
class worker_server final : net::doorkeeper {
public:
  /// Listens. Watchers are answered from now on.
  ///
  /// Errors  std::invalid_argument, std::system_error as the network's listen(); std::invalid_argument for a
  ///         run that cannot be spread over processes (hogwild).
  worker_server(serve_options options, const run_plan& plan, caf::actor_system& system, run_answers answers);
  /// Ends all sessions.
  ~worker_server();
  worker_server(const worker_server&) = delete;
  worker_server& operator=(const worker_server&) = delete;

  const std::string& address() const noexcept { return address_; } ///< with the port that was free
  const wire_format& wire() const noexcept { return wire_; }
  /// Whether the shards are here, and not with parameter hosts.
  bool holds_shards() const noexcept { return options_.shard_hosts == 0; }
  /// Where the shards of this process lie, so that workers read their weights there; null: no matter where.
  block_source blocks() const { return net::blocks_of(heap_); }
  /// To be told whom each shard of this process awaits first; empty: it makes no difference.
  std::function<void(std::uint32_t shard, std::optional<rank> first, version_number version)> awaits() const;
  /// Whether workers may wait for their turns in a sum, here or at a parameter host.
  bool shares_credit() const { return bounds_.credit || (!holds_shards() && !plan_.options.parameter_actor); }
  std::uint32_t joined() const {
    const std::lock_guard lock(mutex_);
    return here(net::role::worker);
  }
  /// The devices of so many workers by rank, one behind the other, as the last incarnation of each has named
  /// them; "unknown" where none has.
  std::vector<std::string> devices(std::uint32_t workers) const;
  /// What each worker computes on with which the run begins, by rank, as its last incarnation has told. Where
  /// none has, since others have come under later numbers, it is as the first of these.
  std::vector<worker_computer> computers() const;
  /// "1 of 2 workers", and behind it "and 0 of 2 parameter hosts", if the run waits for such.
  std::string attendance() const;
  /// Who is in the run and who was, and when each was heard last. Only the network's thread knows when those
  /// that are in it were heard. If it does not answer within `span`, that is left out. After end() those that
  /// were in it then.
  std::vector<run_member> members(std::chrono::milliseconds span) const;
  /// What the sessions wait for: messages for credit, and what others say that they wait for.
  std::vector<wait_reason> waits() const;
  /// Waits until all workers and parameter hosts have joined, but at most for `span`; true if they have.
  bool wait_for(std::chrono::milliseconds span);

  /// Tells each parameter host which shards it holds, by turns, and returns a handle for each shard. To be
  /// called once, if the options name parameter hosts, when wait_for() has returned true.
  ///
  /// Errors  std::runtime_error: one of them has gone again.
  std::vector<caf::actor> place_shards(shard_duties with);
  /// Waits until the shards are there, but at most for `span`; true if they are.
  ///
  /// Errors  std::runtime_error: one of the parameter hosts has gone, with its last words.
  bool wait_for_shards(std::chrono::milliseconds span);

  /// Tells the workers what they are to do, those here and those that come later.
  void begin(run_actors actors, std::shared_ptr<const time_source> time);
  /// The run has failed: workers and parameter hosts are told so when they have no more to do. Any thread.
  void note_failure(const std::string& why) { verdict_->fail(why); }
  /// Ends every session with these words, and lets nobody in any more. Workers may be told others, and if the
  /// run has failed, they and parameter hosts are told why. Blocks until nothing more is called.
  void end(const std::string& words, const std::string& to_workers = {});

private:
  /// What a worker has said of what it computes on.
  struct told_devices {
    std::vector<std::string> names{};
    worker_computer what{"unknown"};
  };
  /// One who was let in.
  struct admitted_peer {
    net::welcome terms;
    std::shared_ptr<channel> by;
    std::string from; ///< where it connects from, for people
    bool joined = false;
    told_devices devices{};              ///< of a worker
    caf::actor host{};                   ///< the handler for it, once the run has begun
    std::vector<std::uint32_t> shards{}; ///< of a parameter host
    std::string address{};               ///< where workers find them, once they are there
  };
  /// What is there once the run has begun.
  struct running {
    run_actors actors;
    std::shared_ptr<const time_source> time;
    /// By rank, which incarnation of its sessions is the first one of that worker in the run. Those that came
    /// before the begin count as one.
    std::map<std::uint32_t, std::uint32_t> first_incarnation{};
  };

  net::session_events& let_in(net::session& s, const std::string& from) override;
  void turned_away(const net::refusal& why, const std::string& from) override;
  void bound_gradients(net::server_options& terms);
  void on_joined(std::uint64_t session);
  using moments = std::map<net::member, net::instant>;
  moments ask_when_heard(std::chrono::milliseconds span) const;
  moments moments_heard() const;
  void on_ended(std::uint64_t session, const net::ending& why);
  /// A parameter host and the shards that it is to hold.
  struct placed {
    std::uint64_t session;
    std::shared_ptr<channel> by;
    std::vector<std::uint32_t> shards;
  };
  /// By which actors that may outlive the server find it. Who locks mutex_ too locks this first.
  struct server_ref {
    std::mutex mutex;
    worker_server* server;
  };

  std::uint32_t here(net::role part) const;
  bool shards_here() const;
  std::vector<placed> deal_shards(std::vector<caf::actor>& shards);
  void greet_shards(const placed& host, std::string terms);
  void note_ready(std::uint64_t session, const std::string& address);
  void greet_worker(admitted_peer& g, bool late);
  std::string unlike_recorded(const admitted_peer& g) const;
  incarnation_number incarnation_of(const net::welcome& terms) const;
  void tell_missing(const caf::actor& coordinator) const;
  void tell(const std::string& words) const {
    if (options_.on_event) options_.on_event(words);
  }
  void tell_trouble(const std::string& words) const {
    options_.on_trouble ? options_.on_trouble(words) : tell(words);
  }
  void tell_observer(std::string words) const;

  serve_options options_;
  const wire_format wire_; ///< of gradients
  const run_plan& plan_;
  std::uint64_t largest_ = 0; ///< bytes of a body
  data_terms data_;           ///< which samples the run trains on
  admission_bounds bounds_;
  caf::actor_system& system_;
  run_answers answers_;
  std::string address_;

  const std::shared_ptr<run_verdict> verdict_ = std::make_shared<run_verdict>();
  const std::shared_ptr<server_ref> server_ref_ = std::make_shared<server_ref>();
  mutable std::mutex mutex_; ///< guards the seven members below
  std::condition_variable changed_;
  std::map<std::uint32_t, told_devices> devices_; ///< of those who take part, by rank
  std::optional<std::string> lost_shards_; ///< the words, if a parameter host that had its terms has gone
  std::map<std::uint64_t, admitted_peer> admitted_; ///< by session
  std::map<std::uint32_t, std::uint32_t> came_; ///< by rank, the last incarnation of a worker that has joined
  member_list members_;
  std::optional<running> running_;

  std::shared_ptr<net::shared_heap> heap_; ///< null: it lends nothing
  std::shared_ptr<net::network> network_;
  std::unique_ptr<net::server_end> end_;
  refusal_news refused_; ///< of the network's thread
  bool closed_ = false;
};

} // namespace mailgrad::remote
