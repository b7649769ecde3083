#include <mailgrad/tests/actors/systems/played_story.hpp>

#include <mailgrad/tests/actors/systems/processes.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/actors/run/planned_run.hpp>
#include <mailgrad/engine/account/report_of_run.hpp>
#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/files/sha256.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <utility>

namespace mailgrad::systems {

namespace {

using kind = deed::kind;
using role = deed::role;

constexpr milliseconds patience{90'000}; ///< of a run that nobody disturbs any more
constexpr milliseconds to_stop{20'000};  ///< from the call to the end
constexpr milliseconds to_part{75'000};  ///< from the end of the server to that of the last process

/// Whether the weights of its run do not depend on what happens to its processes.
bool has_one_result(const system_spec& s, const story& deeds) {
  if ((s.policy != "sync" && s.workers > 1) || s.cure != "none" || s.seats != s.workers) return false;
  constexpr milliseconds unnoticed{800}; // is shorter than the silence that ends a session
  return std::ranges::all_of(deeds, [&](const deed& d) {
    return (d.what == kind::start && (d.who != role::worker || d.number < s.workers)) ||
           d.what == kind::checkpoint || (d.what == kind::kill && d.who == role::server) ||
           (d.what == kind::freeze && d.span < unnoticed);
  });
}

/// The machines, and what is done to them.
class machines {
public:
  machines(const system_spec& s, const story& deeds)
      : spec_(s), random_(s.seed), wires_(std::make_shared<wires>(s.seed, weather_of(s))),
        has_one_result_(has_one_result(s, deeds)) {
    begun_ = now();
    for (const deed& d : deeds) plan(d.at, [this, d] { act(d); });
    only_pauses_ =
        s.when_alone >= std::chrono::seconds{60} && std::ranges::all_of(deeds, [&](const deed& d) {
          const bool can_wait = d.what == kind::freeze && d.span + milliseconds{2000} < s.rejoin;
          return can_wait || d.what == kind::start || d.what == kind::switches || d.what == kind::checkpoint;
        });
  }

  played play();

private:
  static net::weather weather_of(const system_spec& s) {
    net::weather w;
    w.delay = s.delay;
    w.jitter = s.jitter;
    return w;
  }
  instant now() const { return wires_->network.now(); }
  void plan(milliseconds at, std::function<void()> what) {
    to_come_.emplace(begun_ + instant{at}, std::move(what));
  }
  void plan_in(milliseconds span, std::function<void()> what) {
    to_come_.emplace(now() + instant{span}, std::move(what));
  }

  void act(const deed& d);
  void start(const deed& d);
  void start_worker(std::uint32_t number, bool by_number);
  void start_host(std::uint32_t number);
  void start_server(bool goes_on);
  void kill(const deed& d);
  void ask(const deed& d);
  void bury(std::unique_ptr<process>& one) {
    if (!one) return;
    one->kill();
    one.reset();
  }
  template <class F>
  void each(role who, std::uint32_t number, F what);
  std::vector<process*> all() const;
  void settle();
  bool run_until(instant moment, const std::function<bool()>& enough);
  bool is_quiet() const;
  training_options options() const;
  void judge_server();
  /// What a run in one process has come to.
  struct alone {
    std::string weights, why;
  };
  alone train_alone(training_options o) const;
  void judge_replay();
  void judge_bits();
  std::string not_over() const;
  std::string told_waits();
  void breaks(const std::string& promise, const std::string& seen) {
    if (result_.broken.empty()) result_.broken = promise + ": " + seen;
  }
  server_process* server() const { return static_cast<server_process*>(server_.get()); }

  const system_spec spec_;
  std::mt19937_64 random_;
  std::shared_ptr<wires> wires_;
  scratch_folder disk_;
  instant begun_{0};
  std::multimap<instant, std::function<void()>> to_come_;
  std::unique_ptr<process> server_;
  std::map<std::uint32_t, std::unique_ptr<process>> workers_, hosts_;
  std::uint32_t servers_ = 0, host_places_ = 0;
  bool only_pauses_ = false; ///< disturb the run
  const bool has_one_result_;
  played result_;
};

training_options machines::options() const {
  training_options o;
  o.policy = spec_.policy;
  o.cure = spec_.cure;
  o.optimizer = parse_optimizer(spec_.local_steps > 0 ? "sgd" : "momentum");
  o.optimizer.learning_rate = 0.05;
  o.local_steps = spec_.local_steps;
  o.batch = 4;
  o.steps = spec_.batches;
  o.seats = spec_.seats;
  o.shards = spec_.shards;
  o.seed = 3;
  o.waits_for_workers = spec_.when_alone;
  if (spec_.records) o.record = disk_.path() / fmt::format("run-{}.rec", servers_);
  if (spec_.keeps) {
    o.checkpoints.folder = disk_.path() / "checkpoints";
    o.checkpoints.every_steps = spec_.keeps_each;
  }
  return o;
}

void machines::start_server(bool goes_on) {
  ++servers_;
  server_setup setup{"10.0.0.1:7000", options(), spec_.workers, spec_.hosts, 1000 + servers_};
  if (goes_on && spec_.keeps) try {
      setup.options.resume =
          std::make_shared<const checkpoint>(newest_checkpoint(setup.options.checkpoints.folder).what);
      setup.options.resume_newest = true;
    } catch (const std::exception&) { // there is none yet
    }
  try {
    server_ = std::make_unique<server_process>("server", wires_, setup);
  } catch (const std::exception& e) {
    result_.ended = fmt::format("refused: {}", e.what());
    server_.reset();
  }
}

void machines::start_worker(std::uint32_t number, bool by_number) {
  auto& place = workers_[number];
  if (place && !place->is_over()) return;
  bury(place);
  worker_setup setup{"10.0.0.1:7000", {}, spec_.rejoin};
  if (by_number) setup.number = number;
  place = std::make_unique<worker_process>(fmt::format("worker {}", number), wires_, setup);
}

void machines::start_host(std::uint32_t number) {
  auto& place = hosts_[number];
  if (place && !place->is_over()) return;
  bury(place);
  place = std::make_unique<host_process>(fmt::format("host {}", number), wires_, "10.0.0.1:7000",
                                         fmt::format("10.0.1.{}:{}", number + 1, 7000 + host_places_++));
}

void machines::start(const deed& d) {
  if (d.who == role::worker) start_worker(d.number, d.words == "number");
  if (d.who == role::host) start_host(d.number);
}

/// Whoever keeps processes alive starts it again. A server that is back is no more the one that workers know,
/// so all are started anew.
void machines::kill(const deed& d) {
  if (d.who == role::server) {
    bury(server_);
    if (d.span.count() == 0) return;
    plan_in(d.span, [this] {
      if (server_) return; // was killed twice
      for (auto* group : {&workers_, &hosts_})
        for (auto& [number, one] : *group) bury(one);
      start_server(true);
      for (std::uint32_t h = 0; h < spec_.hosts; ++h) start_host(h);
      for (std::uint32_t r = 0; r < spec_.workers; ++r) start_worker(r, random_() % 2 == 0);
    });
  } else {
    auto& group = d.who == role::host ? hosts_ : workers_;
    const auto found = group.find(d.number);
    if (found == group.end()) return;
    bury(found->second);
    if (d.span.count() > 0) plan_in(d.span, [this, d] { start(d); });
  }
}

template <class F>
void machines::each(role who, std::uint32_t number, F what) {
  if (server_ && (who == role::server || who == role::all)) what(*server_);
  const auto one_of = [&](auto& group, role whose) {
    for (auto& [n, one] : group)
      if (one && (who == role::all || (who == whose && n == number))) what(*one);
  };
  one_of(workers_, role::worker);
  one_of(hosts_, role::host);
}

void machines::act(const deed& d) {
  switch (d.what) {
  case kind::start:
    return start(d);
  case kind::leave:
    return each(role::worker, d.number, [](process& p) { static_cast<worker_process&>(p).leave(); });
  case kind::kill:
    return kill(d);
  case kind::freeze:
    each(d.who, d.number, [](process& p) { p.freeze(); });
    return plan_in(d.span, [this, d] { each(d.who, d.number, [](process& p) { p.wake(); }); });
  case kind::cut:
  case kind::cut_out:
    each(d.who, d.number, [&](process& p) { p.cut(d.what == kind::cut); });
    return plan_in(d.span, [this, d] { each(d.who, d.number, [](process& p) { p.mend(); }); });
  case kind::switches:
  case kind::checkpoint:
  case kind::stop:
    if (server_) ask(d);
    return;
  }
}

/// A process that stands still hears it later.
void machines::ask(const deed& d) {
  if (server_->is_frozen()) return plan_in(milliseconds{50}, [this, d] { act(d); });
  if (d.what == kind::stop) return server()->stop("asked for");
  d.what == kind::switches ? server()->switch_policy(d.words) : server()->take_checkpoint();
}

std::vector<process*> machines::all() const {
  std::vector<process*> some;
  if (server_) some.push_back(server_.get());
  for (const auto* group : {&hosts_, &workers_})
    for (const auto& [number, one] : *group)
      if (one) some.push_back(one.get());
  return some;
}

/// Lets everything happen that can happen at this moment, in a drawn order.
void machines::settle() {
  const std::vector<process*> some = all();
  for (bool any = true; any;) {
    any = false;
    for (process* p : some) {
      for (std::uint64_t n = 1 + random_() % 4; n > 0 && p->deliver(random_); --n) any = true;
      p->look();
    }
    if (wires_->network.next_event() <= now()) {
      wires_->run_until(now());
      any = true;
    }
  }
}

bool machines::run_until(instant moment, const std::function<bool()>& enough) {
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

bool machines::is_quiet() const { return to_come_.empty() && (!server_ || server_->is_over()); }

std::string machines::told_waits() {
  if (!server_) return "no server";
  server()->ask_waits();
  run_until(now() + std::chrono::seconds{2}, [] { return false; });
  return server()->waits();
}

std::string machines::not_over() const {
  std::string names;
  for (const process* p : all())
    if (!p->is_over()) names += (names.empty() ? "" : ", ") + p->name();
  return names;
}

void machines::judge_server() {
  if (!server()->report()) {
    result_.ended = fmt::format("given up before it began: {} ({})", server()->given_up(), server()->waits());
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
  if (r.ended == "failed" && only_pauses_) breaks("a pause ends no run", result_.ended);
  if (r.why.find("contradict") != std::string::npos) breaks("the books agree", r.why);
}

/// In one process, on one thread. Returns the digest of its last weights, or why it has none.
machines::alone machines::train_alone(training_options o) const {
  o.record.clear();
  o.devices.assign(spec_.workers, {device_kind::cpu, 0});
  std::shared_ptr<const folder_lock> lock;
  run_plan plan = plan_on_threads(testing::small_model(), testing::small_data(), std::move(o), true, lock);
  const auto layout = plan.layout;
  std::optional<run_outcome> outcome;
  stepping_system system(true);
  run_crew_options crew{std::make_shared<wire_time>(wires_)};
  crew.coordinator_has_thread = false;
  crew.on_end = [&](run_outcome o) { outcome = std::move(o); };
  run_crew actors(system.actors(), std::move(plan), std::move(crew));
  system.run();
  actors.give_up();
  system.run();
  if (!outcome) return {"", "it does not end"};
  const auto weights = joined_weights(*outcome, *layout);
  return {weights ? sha256(std::as_bytes(std::span(*weights))) : "", outcome->why};
}

void machines::judge_replay() {
  const training_report& r = *server()->report();
  const training_options& recorded = server()->plan().options;
  if (recorded.record.empty() || r.ended == "failed" || recorded.resume) return;
  if (r.parameters_sha256.empty()) return; // they are lost with a shard
  try {
    training_options o = options();
    o.checkpoints = {};
    o.replay = std::make_shared<const recording>(read_recording(recorded.record));
    if (const alone a = train_alone(std::move(o)); a.weights != r.parameters_sha256)
      breaks("a recording replays", fmt::format("its replay has other weights ({})", a.why));
  } catch (const std::exception& e) {
    breaks("a recording replays", e.what());
  }
}

/// With one worker and under sync a run has the bits of one that is trained in one process, without
/// interruption.
void machines::judge_bits() {
  const training_report& r = *server()->report();
  if (!has_one_result_ || r.ended != "completed" || !r.why.empty()) return;
  training_options o = options();
  o.checkpoints = {};
  const alone a = train_alone(std::move(o));
  if (a.weights != r.parameters_sha256)
    breaks("a run has the bits of an undisturbed one", fmt::format("{} ({})", result_.ended, a.why));
  result_.judged_bits = server()->plan().resumed ? played::bits::of_resumed : played::bits::of_undisturbed;
}

played machines::play() {
  try {
    start_server(false);
    const bool ended = run_until(begun_ + instant{patience}, [this] { return is_quiet(); });
    if (!ended) {
      if (server_) server()->stop("nobody disturbs it any more");
      if (!run_until(now() + instant{to_stop}, [this] { return is_quiet(); }))
        breaks("a stop ends the run", told_waits());
    }
    if (server_ && server_->is_over()) {
      judge_server();
      if (server()->report()) {
        judge_replay();
        judge_bits();
      }
    }
    if (result_.broken.empty() &&
        !run_until(now() + instant{to_part} + instant{spec_.rejoin}, [this] { return not_over().empty(); }))
      breaks("every process ends", not_over());
  } catch (const std::exception& e) {
    breaks("nothing is thrown", e.what());
  }
  for (std::size_t at; (at = result_.ended.find(disk_.path().string())) != std::string::npos;)
    result_.ended.replace(at, disk_.path().string().size(), "DISK");
  result_.trace = wires_->network.trace();
  for (auto* group : {&workers_, &hosts_})
    for (auto& [number, one] : *group) bury(one);
  bury(server_);
  if (!wires_->left_over.empty()) breaks("no actor outlives its process", wires_->left_over);
  return result_;
}

} // namespace

played play(const system_spec& s, const story& deeds) { return machines(s, deeds).play(); }

std::string promise_of(const std::string& broken) { return broken.substr(0, broken.find(':')); }

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
