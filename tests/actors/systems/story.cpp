#include <mailgrad/tests/actors/systems/story.hpp>

#include <mailgrad/actors/run/planned_run.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/files/digests.hpp>
#include <mailgrad/optim/policies/policy_spec.hpp>
#include <mailgrad/tests/actors/systems/processes.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/faulty_disk.hpp>
#include <mailgrad/tests/support/manual_time.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <random>

/// Its count.
template <class Rep, class Period>
struct nlohmann::adl_serializer<std::chrono::duration<Rep, Period>> {
  static void to_json(json& j, const std::chrono::duration<Rep, Period>& x) { j = x.count(); }
  static void from_json(const json& j, std::chrono::duration<Rep, Period>& x) {
    x = std::chrono::duration<Rep, Period>{j.get<Rep>()};
  }
};

namespace mailgrad::systems {
namespace {

using kind = deed::kind;
using role = deed::role;

class drawer {
public:
  explicit drawer(std::uint64_t seed) : random_(seed * 0x9e3779b97f4a7c15 + 1) {}

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  std::uint32_t some(std::uint64_t n) { return static_cast<std::uint32_t>(below(n)); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  milliseconds up_to(milliseconds most) {
    return milliseconds{static_cast<milliseconds::rep>(below(static_cast<std::uint64_t>(most.count()) + 1))};
  }
  template <class T>
  T any(std::initializer_list<T> of) {
    return *(of.begin() + static_cast<std::ptrdiff_t>(below(of.size())));
  }

private:
  std::mt19937_64 random_;
};

std::string drawn_policy(drawer& d, const system_spec& s) {
  const std::uint64_t k = 1 + d.below(s.workers);
  const std::function<std::string()> all[]{[] { return "sync"; },
                                           [&] { return fmt::format("ssp:{}", d.below(4)); },
                                           [&] { return fmt::format("k-async:{}", k); },
                                           [&] { return fmt::format("k-batch-sync:{}", k); },
                                           [&] { return fmt::format("k-batch-async:{}", k); },
                                           [&] { return s.workers > 1 ? "backup:1" : "sync"; },
                                           [&] { return fmt::format("ringmaster:{}", 1 + d.below(4)); },
                                           [&] { return fmt::format("rennala:{}", 1 + d.below(3)); },
                                           [] { return "async"; },
                                           [&] { return fmt::format("quorum:{},grace=0.1", k); }};
  return all[d.below(s.hosts > 0 ? 9 : 10)]();
}

/// About how long it trains if nothing is done to it.
milliseconds lasting(const system_spec& s) {
  const auto step = 2 * s.delay.count() + s.jitter.count() + 2;
  return milliseconds{300 + static_cast<milliseconds::rep>(s.batches / s.workers) * step * 3 / 2};
}

std::string name_of(kind k) {
  constexpr std::array names{"start",   "twin",      "leave",     "kill",     "crash",      "freeze", "cut",
                             "cut_out", "full_disk", "slow_disk", "switches", "checkpoint", "stop"};
  return names[static_cast<std::size_t>(k)];
}

std::string name_of(role r) {
  constexpr std::array names{"server", "host", "worker", "all"};
  return names[static_cast<std::size_t>(r)];
}

/// In the middle of a checkpoint, or of a part of a recording.
deed drawn_crash(drawer& d, milliseconds at) {
  const std::uint32_t calls = 1 + d.some(d.one_in(2) ? 8 : 40);
  return {kind::crash, role::server, calls, at, milliseconds{1 + d.below(500)}};
}

/// The server is killed, and whatever else happens leaves the weights as they are.
story server_story(drawer& d, story all, milliseconds begin, milliseconds lasts) {
  for (std::uint64_t n = 1 + d.below(4); n > 0; --n) {
    const milliseconds at = begin + d.up_to(lasts);
    const std::uint64_t what = d.below(5);
    if (what == 0)
      all.push_back({kind::checkpoint, role::server, 0, at});
    else if (what == 1)
      all.push_back({kind::freeze, role::all, 0, at, d.up_to(milliseconds{700})});
    else if (what == 2)
      all.push_back(drawn_crash(d, at));
    else
      all.push_back({kind::kill, role::server, 0, at, milliseconds{1 + d.below(d.one_in(2) ? 50 : 1000)}});
  }
  std::ranges::stable_sort(all, {}, &deed::at);
  return all;
}

constexpr milliseconds patience{90'000}; ///< of a run that nobody disturbs any more
constexpr milliseconds to_stop{20'000};  ///< from the call to the end
constexpr milliseconds to_part{75'000};  ///< from the end of the server to that of the last process

/// Whether the weights of its run do not depend on what happens to its processes.
bool has_one_result(const system_spec& s, const story& deeds) {
  if (!has_no_faults(s) || (s.policy != "sync" && s.workers > 1) || s.cure != "none" || s.slots != s.workers)
    return false;
  constexpr milliseconds unnoticed{800}; // is shorter than the silence that ends a session
  return std::ranges::all_of(deeds, [&](const deed& d) {
    return (d.what == kind::start && (d.who != role::worker || d.number < s.workers)) ||
           d.what == kind::checkpoint || d.what == kind::crash || d.what == kind::slow_disk ||
           (d.what == kind::kill && d.who == role::server && d.number == 0) ||
           (d.what == kind::freeze && d.span < unnoticed);
  });
}

/// While it lives, the disk of the processes has its faults.
struct armed_disk {
  armed_disk() { testing::faulty_disk::here().armed = true; }
  ~armed_disk() { testing::faulty_disk::here().armed = false; }
  armed_disk(const armed_disk&) = delete;
  armed_disk& operator=(const armed_disk&) = delete;
};

/// The machines, and what is done to them.
class machines {
public:
  machines(const system_spec& s, const story& deeds)
      : spec_(s), random_(s.seed), wires_(std::make_shared<wires>(s.seed, weather_of(s))),
        workers_here_(s.workers), has_one_result_(has_one_result(s, deeds)), deeds_(deeds) {
    disk_faults_ = {};
    wires_->server_is_well = [this] {
      static constexpr instant long_enough = std::chrono::seconds{5}; // for what was silent before to be over
      const auto is_well = [](const process& p) { return !p.is_over() && p.was_well_for(long_enough); };
      return has_no_faults(spec_) && server_ && is_well(*server_) &&
             std::ranges::all_of(hosts_, [&](const auto& h) { return h.second && is_well(*h.second); });
    };
    begun_ = now();
    for (const deed& d : deeds) plan(d.at, [this, d] { act(d); });
    only_pauses_ = has_no_faults(s) && s.when_alone >= std::chrono::seconds{60} &&
                   std::ranges::all_of(deeds, [&](const deed& d) {
                     const bool can_wait = d.what == kind::freeze && d.span + milliseconds{2000} < s.rejoin;
                     constexpr std::array harmless{kind::start, kind::switches, kind::checkpoint,
                                                   kind::full_disk, kind::slow_disk};
                     return can_wait || std::ranges::find(harmless, d.what) != harmless.end();
                   });
  }

  played play() {
    try {
      {
        const armed_disk armed;
        start_server(false);
      }
      const bool ended = run_until(begun_ + instant{patience}, [this] { return is_quiet(); });
      if (!ended) {
        disk_faults_.calls_left = 0; // a crash at the very end would begin another run
        if (server_) server()->stop("nobody disturbs it any more");
        if (!run_until(now() + instant{to_stop}, [this] { return is_quiet(); }))
          breaks("a stop ends the run", reported_waits());
      }
      if (server_ && server_->is_over()) {
        judge_server();
        if (server()->report()) {
          judge_staleness();
          judge_replay();
          judge_bits();
        }
      }
      if (result_.broken.empty() &&
          !run_until(now() + instant{to_part} + instant{spec_.rejoin}, [this] { return not_over().empty(); }))
        breaks("every process ends", not_over());
      judge_disk();
      judge_resume();
      if (!wires_->broken.empty() && result_.broken.empty()) result_.broken = wires_->broken;
    } catch (const std::exception& e) {
      breaks("nothing is thrown", e.what());
    }
    for (std::size_t at; (at = result_.ended.find(disk_.path().string())) != std::string::npos;)
      result_.ended.replace(at, disk_.path().string().size(), "DISK");
    result_.refused_writes = disk_faults_.refused;
    result_.trace = wires_->network.trace();
    for (auto* group : {&workers_, &hosts_})
      for (auto& [number, one] : *group) bury(one);
    bury(server_);
    if (!wires_->left_over.empty()) breaks("no actor outlives its process", wires_->left_over);
    return result_;
  }

private:
  static net::weather weather_of(const system_spec& s) {
    return {.delay = s.delay,
            .jitter = s.jitter,
            .duplicate = s.duplicate,
            .reorder = s.reorder,
            .damage = s.damage,
            .truncate = s.truncate,
            .garbage = s.garbage};
  }
  instant now() const { return wires_->network.now(); }
  void plan(milliseconds at, std::function<void()> what) {
    to_come_.emplace(begun_ + instant{at}, std::move(what));
  }
  void plan_in(milliseconds span, std::function<void()> what) {
    to_come_.emplace(now() + instant{span}, std::move(what));
  }

  void bury(std::unique_ptr<process>& one) {
    if (!one) return;
    one->kill();
    one.reset();
  }
  /// What a run in one process has come to.
  struct alone {
    std::string weights, why;
    bool completed = false;
  };
  void breaks(const std::string& promise, const std::string& seen) {
    if (result_.broken.empty()) result_.broken = promise + ": " + seen;
  }
  server_process* server() const { return static_cast<server_process*>(server_.get()); }

  std::shared_ptr<const checkpoint> newest() const {
    return std::make_shared<const checkpoint>(newest_checkpoint(folder()).what);
  }
  std::filesystem::path folder() const { return disk_.path() / "checkpoints"; }
  /// Of a run that keeps none.
  training_options options_without_checkpoints() const {
    training_options o = options();
    o.checkpoints = {};
    return o;
  }
  training_options options() const {
    optimizer_options rule = parse_optimizer(spec_.local_steps > 0 ? "sgd" : "momentum");
    rule.learning_rate = 0.05;
    training_options o{.slots = std::max(spec_.slots, workers_here_),
                       .waits_for_workers = spec_.when_alone,
                       .policy = spec_.policy,
                       .cure = spec_.cure,
                       .optimizer = rule,
                       .local_steps = spec_.local_steps,
                       .batch = 4,
                       .steps = spec_.batches,
                       .shards = spec_.shards,
                       .seed = 3};
    if (spec_.records) o.record = disk_.path() / fmt::format("run-{}.rec", servers_);
    if (spec_.keeps) o.checkpoints = {.folder = folder().string(), .every_steps = spec_.keeps_each};
    return o;
  }

  void start_server(bool goes_on) {
    ++servers_;
    server_setup setup{"10.0.0.1:7000", options(), workers_here_, spec_.hosts, 1000 + servers_};
    if (goes_on && spec_.keeps) try {
        setup.options.resume = newest();
        setup.options.resume_newest = true;
      } catch (const std::exception&) { // there is none yet
      }
    try {
      try {
        server_ = std::make_unique<server_process>("server", wires_, setup);
      } catch (const recording_error&) { // checkpoints.md says of which checkpoints a recording cannot go on
        setup.options.record.clear();
        server_ = std::make_unique<server_process>("server", wires_, setup);
      }
    } catch (const std::exception& e) {
      result_.ended = fmt::format("refused: {}", e.what());
      if (goes_on && disk_faults_.refused == 0 && !had_other_workers_)
        breaks("a killed run goes on", result_.ended);
    }
  }

  void start(role who, std::uint32_t number, bool by_number = false) {
    auto& place = who == role::worker ? workers_[number] : hosts_[number];
    if (place && !place->is_over()) return;
    bury(place);
    if (who == role::host) {
      place = std::make_unique<host_process>(fmt::format("host {}", number), wires_, "10.0.0.1:7000",
                                             fmt::format("10.0.1.{}:{}", number + 1, 7000 + host_places_++));
      return;
    }
    worker_setup setup{"10.0.0.1:7000", {}, spec_.rejoin};
    if (by_number) setup.number = number % 1000; // a twin has one of 1000 or more here
    place = std::make_unique<worker_process>(fmt::format("worker {}", number), wires_, setup);
  }
  /// Whoever keeps processes alive starts it again. A server that is back is no more the one that workers
  /// know, so all are started anew.
  void restart_all(std::uint32_t workers) {
    if (server_) return; // was killed twice
    workers_here_ = workers > 0 ? workers : workers_here_;
    had_other_workers_ = had_other_workers_ || workers_here_ != spec_.workers;
    for (auto* group : {&workers_, &hosts_})
      for (auto& [number, one] : *group) bury(one);
    start_server(true);
    for (std::uint32_t h = 0; h < spec_.hosts; ++h) start(role::host, h);
    for (std::uint32_t r = 0; r < workers_here_; ++r) start(role::worker, r, random_() % 2 == 0);
  }
  /// The disk keeps what it had at that moment, and the process dies before it has done anything else that
  /// others could see.
  void arm_crash(const deed& d) {
    if (!server_ || server_->is_frozen()) return;
    disk_faults_.calls_left = d.number;
    disk_faults_.crashed = [this, d] {
      after_crash_.emplace();
      std::filesystem::copy(disk_.path(), after_crash_->path(), std::filesystem::copy_options::recursive);
      to_go_on_ = d.span;
    };
  }

  void crash() {
    ++result_.crashes;
    disk_faults_.armed = false;
    bury(server_);
    for (const auto& entry : std::filesystem::directory_iterator(disk_.path()))
      std::filesystem::remove_all(entry.path());
    std::filesystem::copy(after_crash_->path(), disk_.path(), std::filesystem::copy_options::recursive);
    after_crash_.reset();
    plan_in(to_go_on_, [this] { restart_all(0); });
    disk_faults_.armed = true;
  }

  void fill_disk(const deed& d) {
    disk_faults_.full = true;
    disk_faults_.torn = d.words == "torn";
    plan_in(d.span, [this] { disk_faults_.full = false; });
  }

  void kill(const deed& d) {
    if (d.who == role::server) {
      bury(server_);
      if (d.span.count() > 0) plan_in(d.span, [this, d] { restart_all(d.number); });
    } else {
      auto& group = d.who == role::host ? hosts_ : workers_;
      const auto found = group.find(d.number);
      if (found == group.end()) return;
      bury(found->second);
      if (d.span.count() > 0) plan_in(d.span, [this, d] { start(d.who, d.number, d.words == "number"); });
    }
  }

  template <class F>
  void each(role who, std::uint32_t number, F what) {
    if (server_ && (who == role::server || who == role::all)) what(*server_);
    const auto one_of = [&](auto& group, role whose) {
      for (auto& [n, one] : group)
        if (one && (who == role::all || (who == whose && n == number))) what(*one);
    };
    one_of(workers_, role::worker);
    one_of(hosts_, role::host);
  }

  void freeze(const deed& d) {
    each(d.who, d.number, [](process& p) { p.freeze(); });
    plan_in(d.span, [this, d, since = now()] {
      const bool together =
          std::ranges::all_of(all(), [since](const process* p) { return p->is_frozen_since(since); });
      each(d.who, d.number, [together](process& p) { p.wake(together); });
    });
  }

  void act(const deed& d) {
    if (d.what == kind::start) return start(d.who, d.number, d.words == "number");
    if (d.what == kind::twin) return start(role::worker, 1000 + d.number, true);
    if (d.what == kind::leave)
      return each(role::worker, d.number, [](process& p) { static_cast<worker_process&>(p).leave(); });
    if (d.what == kind::kill) return kill(d);
    if (d.what == kind::freeze) return freeze(d);
    if (d.what == kind::cut || d.what == kind::cut_out) {
      each(d.who, d.number, [&](process& p) { p.cut(d.what == kind::cut); });
      return plan_in(d.span, [this, d] { each(d.who, d.number, [](process& p) { p.mend(); }); });
    }
    if (d.what == kind::crash) return arm_crash(d);
    if (d.what == kind::full_disk) return fill_disk(d);
    if (!server_) return;
    if (d.what == kind::slow_disk) return server_->slow_disk_until(now() + instant{d.span});
    ask(d);
  }
  /// A process that stands still hears it later.
  void ask(const deed& d) {
    if (server_->is_frozen()) return plan_in(milliseconds{50}, [this, d] { act(d); });
    if (d.what == kind::stop) return server()->stop("asked for");
    d.what == kind::switches ? server()->switch_policy(d.words) : server()->take_checkpoint();
  }

  std::vector<process*> all() const {
    std::vector<process*> some;
    if (server_) some.push_back(server_.get());
    for (const auto* group : {&hosts_, &workers_})
      for (const auto& [number, one] : *group)
        if (one) some.push_back(one.get());
    return some;
  }
  /// Lets everything happen that can happen at this moment, in a drawn order.
  void settle() {
    std::vector<process*> some = all();
    for (bool any = true; any;) {
      any = false;
      for (process* p : some) {
        for (std::uint64_t n = 1 + random_() % 4; n > 0 && !after_crash_ && p->deliver(random_); --n)
          any = true;
        if (!after_crash_) p->look();
      }
      if (after_crash_) {
        crash();
        some = all();
        any = true;
      }
      if (wires_->network.next_event() <= now()) {
        wires_->run_until(now());
        any = true;
      }
    }
  }

  bool run_until(instant moment, const std::function<bool()>& enough) {
    const armed_disk armed;
    for (;;) {
      settle();
      if (enough()) return true;
      if (now() >= moment) return false;
      instant next = std::min(moment, std::max(now(), wires_->network.next_event()));
      for (const process* p : all()) next = std::min(next, std::max(now(), p->next_wish()));
      if (!to_come_.empty()) next = std::min(next, std::max(now(), to_come_.begin()->first));
      const instant span = next - now();
      wires_->run_until(next);
      for (process* p : all()) p->let_pass(span);
      while (!to_come_.empty() && to_come_.begin()->first <= now()) {
        const std::function<void()> what = std::move(to_come_.begin()->second);
        to_come_.erase(to_come_.begin());
        settle();
        what();
      }
    }
  }

  bool is_quiet() const { return to_come_.empty() && (!server_ || server_->is_over()); }

  std::string reported_waits() {
    if (!server_) return "no server";
    server()->ask_waits();
    run_until(now() + std::chrono::seconds{2}, [] { return false; });
    return server()->waits();
  }

  std::string not_over() const {
    std::string names;
    for (const process* p : all())
      if (!p->is_over()) names += (names.empty() ? "" : ", ") + p->name();
    return names;
  }

  void judge_server() {
    if (!server()->report()) {
      result_.ended =
          fmt::format("given up before it began: {} ({})", server()->given_up(), server()->waits());
      return;
    }
    const training_report& r = *server()->report();
    result_.begun = true;
    result_.ended =
        fmt::format("{} ({}) after {} of {} steps", r.ended, r.why, r.steps, server()->plan().steps);
    if (r.ended != "failed" && !r.ledger.balances()) breaks("the ledger balances", result_.ended);
    const auto& before = server()->plan().resumed;
    if (r.ended == "completed" && r.why.empty() &&
        r.steps + (before ? before->card.steps : 0) < server()->plan().steps)
      breaks("a run that is completed has trained all", result_.ended);
    if (r.ended == "failed" && only_pauses_) breaks("a pause or a full disk ends no run", result_.ended);
    if (r.why.find("contradict") != std::string::npos) breaks("the books agree", r.why);
  }
  /// In one process, on one thread. Returns the digest of its last weights, or why it has none.
  alone train_alone(training_options o) const {
    o.record.clear();
    o.devices.assign(workers_here_, {device_kind::cpu, 0});
    std::shared_ptr<const folder_lock> lock;
    run_plan plan = plan_on_threads(testing::small_model(), testing::small_data(), std::move(o), true, lock);
    const auto layout = plan.layout;
    std::optional<run_outcome> outcome;
    stepping_system system(true);
    run_crew_options crew{std::make_shared<wire_time>(wires_)};
    crew.coordinator_has_thread = false;
    crew.timer = std::make_shared<testing::hasty_timer>();
    crew.on_end = [&](run_outcome ended) { outcome = std::move(ended); };
    run_crew actors(system.actors(), std::move(plan), std::move(crew));
    system.run();
    actors.give_up();
    system.run();
    if (!outcome) return {"", "it does not end"};
    const auto weights = joined_weights(*outcome, *layout);
    return {weights ? sha256(std::as_bytes(std::span(*weights))) : "", outcome->why,
            outcome->how == run_outcome::ending::completed};
  }
  /// The most versions that a gradient may be old under any policy of the story; nothing: there is no limit.
  std::optional<std::uint64_t> most_stale() const {
    std::vector<std::string> policies{spec_.policy};
    for (const deed& d : deeds_)
      if (d.what == kind::switches) policies.push_back(d.words);
    std::uint64_t most = 0;
    for (const std::string& words : policies) {
      const auto p = make_policy(words, std::max(spec_.slots, workers_here_));
      if (p->always_fresh()) continue;
      if (!p->most_stale()) return std::nullopt;
      most = std::max(most, *p->most_stale());
    }
    return most;
  }

  void judge_staleness() {
    const auto& seen = server()->report()->staleness;
    if (const auto most = most_stale(); most && seen.max() > *most)
      breaks("no gradient is too stale", fmt::format("{} versions, where {} may be", seen.max(), *most));
  }

  void judge_replay() {
    const training_report& r = *server()->report();
    const training_options& recorded = server()->plan().options;
    if (recorded.record.empty() || r.ended == "failed" || r.parameters_sha256.empty()) return;
    if (disk_faults_.refused > 0 && !std::filesystem::exists(recorded.record)) return; // it was given up
    try {
      training_options o = options_without_checkpoints();
      o.replay = std::make_shared<const recording>(read_recording(recorded.record));
      if (const alone a = train_alone(std::move(o)); a.weights != r.parameters_sha256)
        breaks("a recording replays", fmt::format("its replay has other weights ({})", a.why));
    } catch (const std::exception& e) {
      breaks("a recording replays", e.what());
    }
  }
  /// With one worker and under sync a run has the bits of one that is trained in one process, without
  /// interruption.
  void judge_bits() {
    const training_report& r = *server()->report();
    if (!has_one_result_ || r.ended != "completed" || !r.why.empty()) return;
    const alone a = train_alone(options_without_checkpoints());
    if (a.weights != r.parameters_sha256)
      breaks("a run has the bits of an undisturbed one", fmt::format("{} ({})", result_.ended, a.why));
    result_.judged_bits = server()->plan().resumed ? played::bits::of_resumed : played::bits::of_undisturbed;
  }
  /// A run that has not trained all goes on from its last checkpoint in one process.
  void judge_resume() {
    const bool has_trained_all = server_ && server()->report() && server()->report()->ended == "completed";
    if (!spec_.keeps || has_trained_all || had_other_workers_) return;
    if (!std::filesystem::is_directory(folder()) || checkpoints_in(folder()).empty()) return;
    try {
      training_options o = options_without_checkpoints();
      const alone undisturbed = has_one_result_ ? train_alone(o) : alone{};
      o.resume = newest();
      const alone a = train_alone(std::move(o));
      if (!a.completed) breaks("a run goes on in one process", a.why);
      if (has_one_result_ && a.weights != undisturbed.weights)
        breaks("a run has the bits of an undisturbed one", "it went on in one process");
    } catch (const std::exception& e) {
      breaks("a run goes on in one process", e.what());
    }
  }
  /// What is on the disk is whole, or has a name that says that it is not.
  void judge_disk() {
    if (result_.crashes == 0 && disk_faults_.refused == 0) return;
    for (const auto& entry : std::filesystem::directory_iterator(disk_.path()))
      if (entry.is_regular_file()) try {
          static_cast<void>(read_recording(entry.path()));
        } catch (const recording_error& e) { // one that was left may be too short
          if (entry.path().extension() == ".rec") breaks("a recording is whole", e.what());
        }
    if (!spec_.keeps || !std::filesystem::is_directory(folder())) return;
    for (const std::filesystem::path& file : checkpoints_in(folder()))
      if (!is_whole(file)) breaks("a checkpoint is whole", file.filename().string());
    if (!server_ || server()->checkpoints().written == 0) return;
    try {
      const std::uint64_t found = steps_named_in(folder(), newest()->path());
      if (found < server()->checkpoints().steps)
        breaks("the newest checkpoint is found",
               fmt::format("of {} steps, not of {}", found, server()->checkpoints().steps));
    } catch (const std::exception& e) {
      breaks("the newest checkpoint is found", e.what());
    }
  }

  const system_spec spec_;
  std::mt19937_64 random_;
  std::shared_ptr<wires> wires_;
  scratch_folder disk_;
  instant begun_{0};
  std::multimap<instant, std::function<void()>> to_come_;
  std::unique_ptr<process> server_;
  std::map<std::uint32_t, std::unique_ptr<process>> workers_, hosts_;
  std::uint32_t servers_ = 0, host_places_ = 0;
  std::uint32_t workers_here_; ///< with which the server was started
  bool had_other_workers_ = false;
  testing::faulty_disk& disk_faults_ = testing::faulty_disk::here();
  std::optional<scratch_folder> after_crash_; ///< what the disk has then, until the server is dead
  milliseconds to_go_on_{0};                  ///< from then to the next server
  bool only_pauses_ = false;                  ///< and troubles of the disk disturb the run
  const bool has_one_result_;
  const story deeds_;
  played result_;
};

/// The promise alone, without what was seen.
std::string promise_of(const std::string& broken) { return broken.substr(0, broken.find(':')); }

} // namespace

bool has_no_faults(const system_spec& s) {
  return s.duplicate + s.reorder + s.damage + s.truncate + s.garbage == 0;
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(system_spec, seed, policy, cure, workers, slots, shards,
                                                hosts, local_steps, batches, delay, jitter, duplicate,
                                                reorder, damage, truncate, garbage, rejoin, when_alone,
                                                records, keeps, keeps_each)

std::string as_json(const system_spec& s) { return nlohmann::json(s).dump(); }
system_spec system_of(const std::string& json) { return nlohmann::json::parse(json); }

std::string as_code(const story& s) {
  std::string all = "{";
  for (const deed& d : s)
    all += fmt::format("\n    {{kind::{}, role::{}, {}, {}ms, {}ms, \"{}\"}},", name_of(d.what),
                       name_of(d.who), d.number, d.at.count(), d.span.count(), d.words);
  return all + "\n}";
}

system_spec drawn_system(std::uint64_t seed) {
  drawer d(seed);
  system_spec s;
  s.seed = seed;
  s.workers = 1 + d.some(4);
  s.slots = s.workers + d.some(3);
  s.shards = 1 + d.some(3);
  s.hosts = d.one_in(3) ? 1 + d.some(std::min(2U, s.shards)) : 0;
  s.batches = 8 + d.below(d.one_in(2) ? 40 : 200);
  s.policy = drawn_policy(d, s);
  s.cure = d.any<const char*>({"none", "none", "dc-asgd"});
  s.local_steps = d.one_in(6) ? 1 + d.below(3) : 0;
  s.delay = milliseconds{1 + d.below(40)};
  s.jitter = d.up_to(milliseconds{40});
  s.when_alone = d.any<std::chrono::nanoseconds>({std::chrono::nanoseconds{0}, std::chrono::seconds{3},
                                                  std::chrono::seconds{60}, std::chrono::nanoseconds::max()});
  s.rejoin = d.any<milliseconds>({milliseconds{5000}, milliseconds{60'000}});
  s.records = d.one_in(2);
  s.keeps = d.one_in(2);
  s.keeps_each = s.keeps && d.one_in(2) ? 1 + d.below(12) : 0;
  const bool has_batches = !s.policy.starts_with("async") && !s.policy.starts_with("ssp") &&
                           !s.policy.starts_with("ringmaster") && !s.policy.starts_with("k-async");
  if (s.local_steps > 0 || has_batches || make_policy(s.policy, s.workers)->always_fresh())
    s.cure = "none"; // there would be nothing to cure
  if (d.one_in(6)) {
    double* const faults[] = {&s.duplicate, &s.reorder, &s.damage, &s.truncate, &s.garbage};
    *faults[d.below(std::size(faults))] = d.any<double>({0.001, 0.005, 0.02});
  } else if (d.one_in(8)) { // its weights can be predicted
    if (s.workers > 1) s.policy = "sync";
    s.cure = "none";
    s.slots = s.workers;
    s.keeps = true;
    s.keeps_each = 1 + d.below(12);
  }
  return s;
}

story drawn_story(std::uint64_t seed, const system_spec& s) {
  drawer d(seed ^ 0x5157);
  story all;
  const milliseconds begin{d.one_in(2) ? 100 : 1500};
  for (std::uint32_t h = 0; h < s.hosts; ++h) all.push_back({kind::start, role::host, h, d.up_to(begin)});
  const bool can_be_predicted = s.keeps && s.cure == "none" && s.slots == s.workers &&
                                (s.policy == "sync" || s.workers == 1) && has_no_faults(s) && !d.one_in(4);
  const auto extra = static_cast<std::uint32_t>(!can_be_predicted && d.one_in(3) ? 1 : 0);
  const milliseconds lasts = lasting(s);
  const std::string asks = d.one_in(2) ? "number" : "";
  for (std::uint32_t r = 0; r < s.workers + extra; ++r)
    all.push_back(
        {kind::start, role::worker, r, r < s.workers ? d.up_to(begin) : begin + d.up_to(lasts), {}, asks});
  if (can_be_predicted) return server_story(d, std::move(all), begin, lasts);
  const auto somebody = [&](deed& what) {
    const std::uint64_t which = d.below(10);
    what.who = which == 0 ? role::server : which == 1 && s.hosts > 0 ? role::host : role::worker;
    if (what.who != role::server) what.number = d.some(what.who == role::host ? s.hosts : s.workers + extra);
  };
  const auto span_of_silence = [&] { return milliseconds{1 + d.below(d.one_in(2) ? 1000 : 8000)}; };
  for (std::uint64_t n = d.below(8); n > 0; --n) {
    deed x;
    x.at = d.one_in(3) ? d.up_to(begin + milliseconds{300}) : begin + d.up_to(lasts);
    somebody(x);
    const std::uint64_t what = d.below(10);
    if (what < 3) {
      x.what = kind::kill;
      x.span = d.one_in(4) ? milliseconds{0} : milliseconds{1 + d.below(d.one_in(2) ? 400 : 4000)};
      if (x.who == role::server && s.keeps && d.one_in(3)) x.number = 1 + d.some(4);
    } else if (what == 3) {
      x.what = kind::freeze;
      x.span = span_of_silence();
      if (d.one_in(4)) x.who = role::all;
    } else if (what == 4) {
      x.what = d.one_in(3) ? kind::cut_out : kind::cut;
      x.span = span_of_silence();
    } else if (what == 5) {
      x = {kind::switches, role::server, 0, x.at, {}, drawn_policy(d, s)};
    } else if (what == 6 && s.keeps) {
      x = {kind::checkpoint, role::server, 0, x.at};
    } else if (what == 6) {
      x = {kind::leave, role::worker, d.some(s.workers), x.at};
    } else if (what == 7 && s.keeps && d.one_in(2)) {
      x = drawn_crash(d, x.at);
    } else if (what == 7) {
      const kind how = d.one_in(2) ? kind::full_disk : kind::slow_disk;
      const milliseconds span{1 + d.below(2000)};
      x = {how, role::server, 0, x.at, span, d.one_in(2) ? "torn" : ""};
    } else if (what == 8) {
      x = {kind::twin, role::worker, d.some(s.workers), d.up_to(begin + lasts)};
    } else if (d.one_in(3)) {
      x = {kind::stop, role::server, 0, x.at};
    } else {
      x = {kind::leave, role::worker, d.some(s.workers + extra), x.at};
    }
    all.push_back(std::move(x));
  }
  std::ranges::stable_sort(all, {}, &deed::at);
  return all;
}

played play(const system_spec& s, const story& deeds) { return machines(s, deeds).play(); }

story shortened(const system_spec& s, story deeds, const std::string& broken) {
  for (bool shorter = true; shorter;) {
    shorter = false;
    for (std::size_t i = deeds.size(); i-- > 0;) {
      story less = deeds;
      less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
      if (promise_of(play(s, less).broken) != promise_of(broken)) continue;
      deeds = std::move(less);
      shorter = true;
    }
  }
  return deeds;
}

} // namespace mailgrad::systems
