#pragma once

#include <mailgrad/actors/remote/client_side.hpp>
#include <mailgrad/actors/remote/gradient_form.hpp>
#include <mailgrad/actors/remote/membership.hpp>
#include <mailgrad/actors/worker/spawn_worker.hpp>
#include <mailgrad/engine/plan/terms.hpp>

namespace mailgrad::remote {

struct worker_host_options {
  std::shared_ptr<channel> by; ///< to the server
  join_options joins;
  /// Gives what carries the bytes to a parameter host at this address.
  std::function<std::shared_ptr<net::network>(const std::string& address)> network_to;
  /// Where the worker's gradients lie, so that shards read them there; null: in memory of this process.
  std::shared_ptr<net::shared_heap> heap;
  /// Called with the worker when it lives.
  std::function<void(const caf::actor& worker, const worker_peers& peers)> on_begin;
};

/// The host of a worker's process. When the server has told the terms, it connects to the parameter hosts, if
/// there are any, looks for the samples of the run, if it shall, and then spawns the worker among actor
/// proxies of the others.
///
///     waiting --terms_given--> preparing --hosts and samples are there, or no samples--> working
///     waiting --terms that it cannot read--> leaves with words <--a host is lost-- preparing
///     working --the worker has ended--> says so as the last thing
///
/// A worker that is cut off from a parameter host waits as long as a silence may last. If that host is gone,
/// the server ends the run meanwhile, and the worker still reports what it has done. Else the connection
/// alone is broken, and it leaves as one that is cut off from the server, so that it may come back.
class worker_host : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.worker-host";

  worker_host(caf::event_based_actor* self, worker_host_options options)
      : actor_part(self), options_(std::move(options)) {}
  /// Says goodbye to the parameter hosts, and ends the stages of the worker.
  ~worker_host() {
    for (const auto& host : shard_hosts_) host->leave("its worker has ended");
    for (const caf::actor& stage : stages_) messaging::send_anonymously(stage, give_up{});
  }
  caf::behavior make_behavior();

private:
  void take_terms(const terms_given& x);
  void connect(const shard_place& place);
  void look_for_samples();
  void begin_if_ready();
  void begin();
  std::unique_ptr<net::all_reduce> join_sums() const;
  exchange_terms terms_of_exchange() const;
  worker_peers meet(const exchange_terms& exchange);
  /// Makes the worker known to the server and to the parameter hosts from `known_by` on, before it speaks.
  caf::actor add_worker(std::size_t known_by, const std::function<caf::actor()>& spawned) {
    const actor_address me{duty::worker, told_->terms.worker.value};
    if (known_by == shard_hosts_.size()) return options_.by->add(me, spawned);
    return shard_hosts_[known_by]->way()->add(me, [&] { return add_worker(known_by + 1, spawned); });
  }

  worker_host_options options_;
  std::optional<given_terms> told_;
  std::vector<std::unique_ptr<client_side>> shard_hosts_; ///< as in the terms
  std::shared_ptr<local_samples::answer> found_;          ///< null: it does not look
  std::size_t ready_ = 0;          ///< parameter hosts that are there, and the search that is over
  caf::actor worker_;              ///< null before it works
  std::vector<caf::actor> stages_; ///< of a worker that spans several devices
  bool early_ = false;             ///< it leaves before the run has ended
  bool cut_off_ = false;           ///< from a parameter host
};

/// One incarnation of a worker in a run of another process: its session, the actor of the worker, and
/// actor proxies in place of its peers. When the session ends, for whatever reason, all of them end.
/// Threads begin(), wait_until_in() and its destructor: one owner; the rest: any.
class member_incarnation {
public:
  /// Its actors live in `home`, which must outlive them. `tries_once`: the server is known to have listened.
  /// `joins` names a network. `on_change`: the worker has begun; called by an actor, and must not block.
  member_incarnation(caf::actor_system& home, const std::string& address, net::hello says, bool tries_once,
                     join_options joins, std::function<void()> on_change);
  /// Cuts the connections and ends the actors, if that has not happened. Does not wait for the actors.
  ~member_incarnation() { cut("the process has left"); }
  member_incarnation(const member_incarnation&) = delete;
  member_incarnation& operator=(const member_incarnation&) = delete;

  /// Connects, and returns at once.
  /// Errors  std::invalid_argument for no address.
  void begin() { client_.connect(address_); }
  /// Waits until the server has taken it in. Returns how it ended if it was not taken in.
  std::optional<net::ending> wait_until_in() { return client_.wait_until_in(); }

  std::optional<net::welcome> terms() const { return client_.terms(); }
  caf::actor worker() const {
    const std::lock_guard lock(self_->mutex);
    return self_->worker;
  }
  worker_peers peers() const {
    const std::lock_guard lock(self_->mutex);
    return self_->peers;
  }
  net::ending wait() const { return client_.wait(); }
  /// How its session has ended; none before. Never waits.
  std::optional<net::ending> outcome() const { return client_.outcome(); }

  /// Ends the worker after its present step. Does not wait.
  void leave();
  /// Cuts the connections without a word, and ends the actors.
  void cut(const std::string& words);

private:
  /// What the host's actor knows of it as well, which may live a little longer.
  struct shared {
    std::mutex mutex; ///< guards the members below
    std::function<void()> on_change{};
    bool ended = false;
    caf::actor worker{};
    worker_peers peers{};
    caf::actor host{};

    void take(const caf::actor& begun, const worker_peers& its_peers);
    void end();
  };

  const std::shared_ptr<shared> self_ = std::make_shared<shared>();
  const std::string address_;
  client_side client_;
};

} // namespace mailgrad::remote
