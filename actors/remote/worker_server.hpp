#pragma once

#include <mailgrad/actors/remote/acceptor.hpp>
#include <mailgrad/actors/remote/serve_options.hpp>
#include <mailgrad/actors/worker/spawn_worker.hpp>
#include <mailgrad/engine/plan/terms.hpp>
#include <mailgrad/net/usual_network.hpp>

#include <condition_variable>

namespace mailgrad::remote {

// What a server answers the hosts of other processes: a handler for each of them, which is an actor.

/// What a worker hears at the end, from whichever is the first to say it: its handler or the server.
inline constexpr std::string_view work_is_done = "the run needs the worker no longer";

/// What a watcher is told, and what is then done: an end of the run that came first would cut the answer off.
struct run_answer {
  std::string text;
  std::function<void()> then{};
};

/// Answers a watcher's question about the run. It may block. std::invalid_argument becomes a refusal.
using run_answers = std::function<run_answer(const std::string& what, const std::string& argument)>;

/// Whether the run has failed, which its workers and parameter hosts are told when they have done their part,
/// so that their programs end with a failure as well.
/// Threads any
class run_verdict {
public:
  void fail(std::string why) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(why);
  }
  net::ending end_of_work(std::string words) const {
    const std::lock_guard lock(mutex_);
    if (!failure_) return {net::end_reason::left, std::move(words)};
    return {net::end_reason::run_failed, "the run has failed: " + *failure_};
  }

private:
  mutable std::mutex mutex_;
  std::optional<std::string> failure_;
};

/// Tells a worker's process its terms first. When that process has said all that it had to say, its session
/// is ended.
class worker_handler : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.worker-handler";

  /// `write_terms` is called once, and builds the graphs of the model. The coordinator is asked whether it
  /// knows the verdict.
  worker_handler(caf::event_based_actor* self, std::shared_ptr<channel> by,
                 std::function<std::string()> write_terms, caf::actor coordinator,
                 std::shared_ptr<const run_verdict> verdict)
      : actor_part(self), by_(std::move(by)), write_terms_(std::move(write_terms)),
        coordinator_(std::move(coordinator)), verdict_(std::move(verdict)) {}
  caf::behavior make_behavior() {
    messaging::ignore_others(self_);
    tell_terms();
    return {
        on([this](const worker_leaves& x) { let_go(x); }),
        on([this](const go_on&) {
          by_->end(verdict_->end_of_work(std::string(work_is_done)));
          self_->quit();
        }),
        on([this](const give_up&) { self_->quit(); }),
    };
  }

private:
  /// Nobody watches this actor, so the worker is told why it gets no terms.
  void tell_terms() const {
    try {
      by_->tell_host(terms_given{write_terms_()});
    } catch (const std::exception& e) {
      by_->fail(e.what());
    }
  }
  /// A worker whose step has failed leaves at once, and the coordinator may not have read yet that it has.
  void let_go(const worker_leaves& x) {
    if (x.early) {
      by_->leave("its owner ended it before the end of the run");
      return self_->quit();
    }
    watch(coordinator_, go_on{}); // it may have ended, and with it the run
    send(coordinator_, verdict_asked{});
  }

  std::shared_ptr<channel> by_;
  std::function<std::string()> write_terms_;
  caf::actor coordinator_;
  std::shared_ptr<const run_verdict> verdict_;
};

/// Tells a parameter host its terms, and hears where its shards are reached.
class shard_handler : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.shard-handler";

  /// `ready` is called once, with the address.
  shard_handler(caf::event_based_actor* self, std::shared_ptr<channel> by, std::string terms,
                std::function<void(const std::string& address)> ready)
      : actor_part(self), by_(std::move(by)), terms_(std::move(terms)), ready_(std::move(ready)) {}
  caf::behavior make_behavior() {
    messaging::ignore_others(self_);
    by_->tell_host(terms_given{std::exchange(terms_, {})});
    return {
        on([this](const shards_ready& x) {
          if (x.address.empty()) return by_->fail("expected an address of its shards, found none");
          if (ready_) std::exchange(ready_, nullptr)(x.address);
        }),
        on([this](const give_up&) { self_->quit(); }),
    };
  }

private:
  std::shared_ptr<channel> by_;
  std::string terms_;
  std::function<void(const std::string&)> ready_;
};

/// Answers who watches a run. It has a thread of its own, because answers take their time.
class watcher_handler : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.watcher-handler";

  watcher_handler(caf::event_based_actor* self, std::shared_ptr<channel> by, run_answers answers)
      : actor_part(self), by_(std::move(by)), answers_(std::move(answers)) {}
  caf::behavior make_behavior() {
    messaging::ignore_others(self_);
    return {
        on([this](const run_asked& x) { answer(x); }),
        on([this](const give_up&) { self_->quit(); }),
    };
  }

private:
  void answer(const run_asked& x) const {
    run_answered told{x.number, false, {}};
    std::function<void()> then;
    try {
      run_answer found = answers_(x.what, x.argument);
      told.text = std::move(found.text);
      then = std::move(found.then);
    } catch (const std::invalid_argument& e) {
      told.refused = true;
      told.text = e.what();
    }
    by_->tell_host(std::move(told));
    if (then) then();
  }

  std::shared_ptr<channel> by_;
  run_answers answers_;
};

/// How a member stands whose session has ended so.
run_member::state state_after(const net::ending& why);

/// A server's list of who is in its run and who was: workers and parameter hosts, each with its last
/// incarnation, and how often one before it was lost. It has at most one entry for each slot.
/// Units   moments are those of the network's clock.
class member_list {
public:
  void joined(const net::welcome& terms, const std::string& from, std::vector<std::string> devices,
              net::instant now);
  /// It is to hold these shards.
  void holds(const net::member& who, std::vector<std::uint32_t> shards) {
    if (const auto found = all_.find(who); found != all_.end()) found->second.shards = std::move(shards);
  }
  /// The session of this incarnation has ended. If a later one is in, only the loss is noted, and of one that
  /// was never in, nothing.
  void ended(const net::welcome& terms, const net::ending& why, net::instant heard, net::instant now);
  /// The run has ended, and its sessions end with it. Whoever was in it is done.
  void close(net::instant now);
  bool is_closed() const noexcept { return closed_; }

  /// `heard` says of one that is in when its last byte came; nothing if that is not known.
  std::vector<run_member>
  told(net::instant now, const std::function<std::optional<net::instant>(const net::member&)>& heard) const;

private:
  struct entry {
    std::uint32_t incarnation = 0;
    run_member::state is = run_member::state::joined;
    net::instant since{0};
    std::optional<net::instant> heard{}; ///< of one that is gone
    std::string from;
    std::vector<std::string> devices{};
    std::vector<std::uint32_t> shards{};
    std::uint32_t losses = 0;
    std::string why{};
  };

  std::map<net::member, entry> all_;
  bool closed_ = false;
};

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
  std::function<void(std::uint32_t shard, std::optional<rank> first, version_number version)> awaits() const {
    if (!bounds_.credit) return {};
    return [credit = bounds_.credit](std::uint32_t shard, std::optional<rank> first, version_number version) {
      credit->await(shard, first, version);
    };
  }
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
  bool wait_for(std::chrono::milliseconds span) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, span, [this] {
      return here(net::role::worker) >= plan_.workers() && here(net::role::shard) >= options_.shard_hosts;
    });
  }

  /// Tells each parameter host which shards it holds, by turns, and returns a handle for each shard. To be
  /// called once, if the options name parameter hosts, when wait_for() has returned true.
  /// Errors  std::runtime_error: one of them has gone again.
  std::vector<caf::actor> place_shards(shard_duties with);
  /// Waits until the shards are there, but at most for `span`; true if they are.
  /// Errors  std::runtime_error: one of the parameter hosts has gone, with its last words.
  bool wait_for_shards(std::chrono::milliseconds span) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, span, [this] { return shards_here(); });
  }

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
  void turned_away(const net::refusal& why, const std::string& from) override {
    if (const auto line = refused_.refused(fmt::format("refused {}: {}", from, why.words()), network_->now()))
      tell_trouble(*line);
  }
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

  /// How many of a role have joined. The caller holds the mutex.
  std::uint32_t here(net::role part) const {
    return static_cast<std::uint32_t>(std::ranges::count_if(admitted_, [part](const auto& entry) {
      return entry.second.joined && entry.second.terms.you.part == part;
    }));
  }
  bool shards_here() const;
  std::vector<placed> deal_shards(std::vector<caf::actor>& shards);
  void greet_shards(const placed& host, std::string terms);
  void note_ready(std::uint64_t session, const std::string& address);
  void greet_worker(admitted_peer& g, bool late);
  std::string unlike_recorded(const admitted_peer& g) const;
  /// In a run, incarnations are counted from the one that it begins with. The caller holds the mutex.
  incarnation_number incarnation_of(const net::welcome& terms) const {
    if (!running_) return {};
    const auto found = running_->first_incarnation.find(terms.you.number);
    const std::uint32_t first = found == running_->first_incarnation.end() ? 1 : found->second;
    return {std::max(terms.incarnation, first) - first};
  }
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
