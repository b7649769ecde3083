#pragma once

#include <mailgrad/actors/remote/client_side.hpp>
#include <mailgrad/actors/remote/membership.hpp>
#include <mailgrad/actors/remote/worker_host.hpp>
#include <mailgrad/actors/remote/worker_server.hpp>
#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/actors/run/run_recorder.hpp>
#include <mailgrad/actors/scheduler/stepping_system.hpp>
#include <mailgrad/engine/account/training_report.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/files/locks.hpp>
#include <mailgrad/tests/net/simulated_network.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <tuple>

// The processes of a run, each with the actors that it has while it runs, and without threads: what the
// thread of its owner does stands in look(), which is called whenever something may have happened.

namespace mailgrad::systems {

/// The network of all simulated processes, and whether its time passes just now.
struct wires {
  wires(std::uint64_t seed, net::weather w) : network(seed, w) {}

  void run_until(net::instant moment) {
    runs = true;
    network.run_until(moment);
    runs = false;
  }

  net::simulated_network network;
  bool runs = false;
  std::string left_over{};                ///< processes that had ended while actors of theirs had not
  std::function<bool()> server_is_well{}; ///< and its hosts, so whoever is well is heard
  std::string broken{};                   ///< the first promise that a message has broken
};

/// The network as one process has it: what happens to the process happens to all its endpoints.
///
/// Threads one.
class process_network final : public net::network {
public:
  explicit process_network(std::shared_ptr<wires> all) : all_(std::move(all)) {}

  std::string listen(net::server_end& server, const std::string& address) override {
    ends_.push_back(&server);
    return all_->network.listen(server, address);
  }
  void connect(net::client_end& client, const std::string& address) override {
    if (dead_) return;
    ends_.push_back(&client);
    all_->network.connect(client, address);
    if (cut_) all_->network.cut(client);
  }
  void forget(net::endpoint& e) override {
    if (std::erase(ends_, &e) == 0 || dead_) return;
    if (!all_->runs) all_->run_until(now()); // what was posted before
    all_->network.forget(e);
  }
  net::instant now() const noexcept override { return all_->network.now(); }
  std::uint64_t draw_key() override { return all_->network.draw_key(); }
  /// A process that is dead works for itself alone: its sessions end, and nobody hears of it.
  void post(net::endpoint& e, std::function<void(net::instant)> work) override {
    if (std::ranges::find(ends_, &e) == ends_.end()) return;
    dead_ ? work(now()) : all_->network.post(e, std::move(work));
  }

  void kill() {
    if (std::exchange(dead_, true)) return;
    for (net::endpoint* e : ends_) all_->network.kill(*e);
  }
  void freeze() { each(&net::simulated_network::freeze); }
  void wake() { each(&net::simulated_network::wake); }
  void cut(bool both_ways) {
    cut_ = both_ways;
    each(both_ways ? &net::simulated_network::cut : &net::simulated_network::cut_outgoing);
  }
  void mend() {
    cut_ = false;
    each(&net::simulated_network::mend);
  }

private:
  void each(void (net::simulated_network::*what)(net::endpoint&)) {
    if (dead_) return;
    for (net::endpoint* e : ends_) (all_->network.*what)(*e);
  }

  std::shared_ptr<wires> all_;
  std::vector<net::endpoint*> ends_; ///< in the order of their coming
  bool dead_ = false, cut_ = false;
};

/// The clock of the network.
class wire_time final : public time_source {
public:
  explicit wire_time(std::shared_ptr<wires> all) : all_(std::move(all)) {}
  instant now() const noexcept override { return all_->network.now(); }

private:
  std::shared_ptr<wires> all_;
};

/// Tells shards when a policy closes a batch.
class wire_timer final : public step_timer {
public:
  explicit wire_timer(std::shared_ptr<wires> all) : all_(std::move(all)) {}
  void at(instant when, notice tell) override { all_->network.at(when, std::move(tell)); }

private:
  std::shared_ptr<wires> all_;
};

/// What has come to the actors of a process. It reads each message before its actor does.
class witness {
public:
  /// Returns which promise the message breaks, and what was seen; empty: none.
  std::string look_at(const caf::mailbox_element& what, const caf::abstract_actor& to, std::size_t waiting);

private:
  using of_shard = std::tuple<caf::actor_id, std::uint32_t>;
  std::map<of_shard, std::uint64_t> versions_; ///< of the weights that a worker's actor had last
  std::map<std::tuple<caf::actor_id, std::uint32_t, std::uint64_t>, std::uint64_t>
      steps_; ///< of the last gradient that came to a shard, by worker and incarnation
};

class process {
public:
  process(std::string name, const std::shared_ptr<wires>& all)
      : network_(std::make_shared<process_network>(all)), time_(std::make_shared<wire_time>(all)),
        wires_(all), name_(std::move(name)), disturbed_(time_->now()) {}
  virtual ~process();

  const std::string& name() const noexcept { return name_; }
  /// Does what is to be done now. It never waits.
  virtual void look() = 0;
  /// Whether it has ended by itself.
  virtual bool is_over() const = 0;
  /// Delivers a message, drawn among those that could be next. False: there is none, or it stands still.
  bool deliver(std::mt19937_64& random);
  void let_pass(instant span);
  /// When it has something to do although nothing comes; max() if it has not.
  virtual instant next_wish() const;
  bool is_frozen() const noexcept { return frozen_; }
  bool is_frozen_since(instant moment) const noexcept { return frozen_ && frozen_at_ == moment; }
  void freeze();
  /// `together`: all processes have slept for the same time, so none has missed a sign of life of another.
  void wake(bool together);
  void cut(bool both_ways) {
    is_cut_ = true;
    network_->cut(both_ways);
  }
  void mend() {
    is_cut_ = false;
    disturbed_ = time_->now();
    network_->mend();
  }
  /// Whether it has run, and was connected, for so long.
  bool was_well_for(instant span) const { return !frozen_ && !is_cut_ && time_->now() - disturbed_ >= span; }
  /// A session with the server has ended: of two that are well, none ends but by their will.
  void judge_loss(const net::ending& why);
  /// Whatever writes to the disk waits until then.
  void slow_disk_until(instant moment) { disk_slow_until_ = moment; }
  /// Its connections close, and nobody hears a last word. To be destroyed next.
  void kill() {
    killed_ = true;
    network_->kill();
  }

protected:
  /// Delivers all that is under way, in the order of its coming.
  void drain() { actors_->run(); }

  std::unique_ptr<stepping_system> actors_ = std::make_unique<stepping_system>(true);
  std::shared_ptr<process_network> network_;
  std::shared_ptr<wire_time> time_;
  std::shared_ptr<wires> wires_;
  bool killed_ = false;

private:
  bool waits_for_disk(const caf::resumable& actor) const;

  std::string name_;
  witness witness_;
  bool frozen_ = false, is_cut_ = false;
  instant frozen_at_{0}, disturbed_{0}, disk_slow_until_{0};
  instant owed_{0}; ///< that passed while it stood still
};

/// How a worker joins.
struct worker_setup {
  std::string server;
  std::optional<std::uint32_t> number{};
  std::chrono::milliseconds rejoin{0};
};

/// As membership is, without its thread.
class worker_process final : public process {
public:
  worker_process(std::string name, const std::shared_ptr<wires>& all, worker_setup setup);
  ~worker_process() override;

  void look() override;
  instant next_wish() const override;
  bool is_over() const override { return ended_.has_value(); }
  /// How its membership has ended.
  const std::optional<net::ending>& ended() const noexcept { return ended_; }
  /// Null between two tries.
  const remote::member_incarnation* incarnation() const noexcept { return incarnation_.get(); }
  void leave();

private:
  void begin(net::hello says, bool tries_once);
  void end(net::ending why) { ended_ = std::move(why); }

  worker_setup setup_;
  remote::rejoin_plan plan_;
  std::unique_ptr<remote::member_incarnation> incarnation_; ///< null while it waits for its next try
  bool was_in_ = false;                                     ///< this incarnation
  bool ever_in_ = false, leaves_ = false;
  instant next_try_{0};
  std::optional<net::ending> ended_;
};

/// As parameter_host is.
class host_process final : public process {
public:
  host_process(std::string name, const std::shared_ptr<wires>& all, const std::string& server,
               const std::string& listen);
  ~host_process() override;

  void look() override;
  bool is_over() const override { return ended_.has_value(); }
  const std::optional<net::ending>& ended() const noexcept { return ended_; }
  remote::channel& way() const noexcept { return *client_.way(); }

private:
  remote::client_side client_;
  caf::actor host_;
  std::optional<net::ending> ended_;
};

/// How a server serves.
struct server_setup {
  std::string address;
  training_options options;
  std::uint32_t workers = 1, hosts = 0;
  std::uint64_t run = 1; ///< key of the run
};

/// As `training` is for a run over processes.
class server_process final : public process {
public:
  /// Errors  those of `training`.
  server_process(std::string name, const std::shared_ptr<wires>& all, const server_setup& setup);
  ~server_process() override;

  void look() override;
  bool is_over() const override { return is_ == state::over; }
  bool has_begun() const noexcept { return crew_.has_value(); }
  /// As a signal does, or a watcher.
  void stop(const std::string& why);
  void switch_policy(const std::string& policy);
  void take_checkpoint();
  /// The checkpoints that it has written.
  const checkpoint_account& checkpoints() const noexcept { return checkpoints_; }
  /// The report; none of a run that was given up before it had begun.
  const std::optional<training_report>& report() const noexcept { return report_; }
  /// Why it was given up then.
  const std::string& given_up() const noexcept { return given_up_; }
  /// Asks all what they wait for, and says what has been heard of it.
  void ask_waits();
  std::string waits();
  const run_plan& plan() const noexcept { return plan_; }

private:
  enum class state : std::uint8_t { gathers, places, trains, over };

  void gather();
  void begin_run();
  void report_end();
  void give_up(const std::string& why);

  server_setup setup_;
  std::shared_ptr<const folder_lock> folder_;
  run_plan plan_;
  state is_ = state::gathers;
  std::optional<run_recorder> recorder_;
  caf::actor checkpoint_writer_;
  std::vector<caf::actor> shards_elsewhere_;
  std::optional<run_crew> crew_;
  std::optional<remote::worker_server> elsewhere_;
  std::optional<run_outcome> outcome_;
  checkpoint_account checkpoints_;
  std::optional<training_report> report_;
  std::string given_up_, waits_;
  bool asks_waits_ = false; ///< and keeps what it hears
};

} // namespace mailgrad::systems
