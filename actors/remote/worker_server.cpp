#include <mailgrad/actors/remote/worker_server.hpp>

#include <mailgrad/actors/remote/batch_form.hpp>
#include <mailgrad/actors/remote/far_actor.hpp>
#include <mailgrad/actors/remote/gradient_form.hpp>
#include <mailgrad/actors/remote/guest_host.hpp>
#include <mailgrad/actors/remote/lending.hpp>
#include <mailgrad/actors/remote/unguessable.hpp>
#include <mailgrad/actors/remote/weights_form.hpp>
#include <mailgrad/engine/plan/largest_body.hpp>
#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/engine/plan/worker_terms.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace mailgrad::remote {
using messaging::send_anonymously, messaging::spawn;

namespace {

constexpr std::uint32_t most_watchers = 16;

void require_spreadable(const run_plan& plan, std::uint32_t hosts, const wire_format& wire) {
  const auto deny = [](const std::string& what) {
    throw std::invalid_argument("serve: workers of other processes " + what);
  };
  if (plan.shares_block())
    deny("share no block of memory, so policy 'hogwild' is for one process; choose another policy");
  if (plan.options.parameter_actor)
    deny(fmt::format("are not known to work with parameter actor '{}'; use Mailgrad's own",
                     plan.options.parameter_actor->name));
  if (hosts > plan.options.shards)
    throw std::invalid_argument(fmt::format(
        "serve: expected at most as many parameter hosts as shards, {}, found {}; name more shards",
        plan.options.shards, hosts));
  if (is_lossy(wire) && !plan.options.record.empty())
    throw std::invalid_argument(fmt::format(
        "record: with wire format {} a replay in one process would see other gradients; record a run with "
        "float32",
        to_string(wire)));
  if (plan.options.all_reduce && (hosts > 0 || is_lossy(wire)))
    throw std::invalid_argument(fmt::format("all-reduce: expected float32 and no parameter hosts, found wire "
                                            "format {} and {} hosts; leave both out",
                                            to_string(wire), hosts));
  if (hosts > 0 && plan.options.replay)
    throw std::invalid_argument("serve: a replay holds its shards itself; name no parameter hosts");
  if (plan.options.devices.size() != plan.workers())
    deny("have one device each; name as many workers as devices");
}

/// What a peer may name of its own, to be refused if it is another run, model or data set.
net::features features_of(const run_plan& plan) {
  net::features says{{std::string(net::feature::run), net::key_text(plan.run.value)}};
  for (const auto& [name, value] : facts_of(plan.model, plan.request, *plan.data, plan.options)) {
    if (name == model_fact) says[std::string(net::feature::model)] = value;
    if (name == samples_fact) says[std::string(net::feature::data)] = value;
  }
  return says;
}

/// What a worker needs to find the samples on its own disk.
data_terms data_of(const run_plan& plan, const net::features& says) {
  return {plan.data->name, plan.data->train.size(), says.at(std::string(net::feature::data)),
          plan.data->source};
}

} // namespace

worker_server::worker_server(serve_options options, const run_plan& plan, caf::actor_system& system,
                             run_answers answers)
    : options_(std::move(options)), wire_(parse_wire_format(options_.wire)), plan_(plan), system_(system),
      answers_(std::move(answers)), network_(options_.network) {
  require_spreadable(plan, options_.shard_hosts, wire_);
  door_->server = this;
  // Refuses what cannot travel before anybody listens.
  const std::uint64_t of_terms = write_terms(plan, terms_of(plan, rank{0})).size();
  if (options_.shard_hosts > 0) write_terms({terms_of(plan, shard_index{0}, {})});
  if (!network_) network_ = net::usual_network(options_.listen);
  net::server_options terms;
  const net::features says = features_of(plan);
  data_ = data_of(plan, says);
  terms.demands = net::demands_of(says, {net::role::worker, net::role::shard, net::role::watcher}, {});
  terms.seats = {{net::role::worker, plan.seats()},
                 {net::role::shard, options_.shard_hosts},
                 {net::role::watcher, most_watchers}};
  terms.run = plan.run.value;
  terms.times = options_.times;
  terms.most_body_bytes = largest_ = std::max(of_terms, largest_body(plan, options_.shard_hosts));
  terms.draw = unguessable;
  end_ = std::make_unique<net::server_end>(std::move(terms), static_cast<net::doorkeeper&>(*this));
  heap_ = net::heap_for(options_.listen, kept_for(options_.times));
  end_->lend_from(heap_);
  address_ = network_->listen(*end_, options_.listen);
}

worker_server::~worker_server() {
  end("the server has ended");
  const std::lock_guard shut(door_->mutex);
  door_->server = nullptr;
}

/// How many of a role have joined. The caller holds the mutex.
std::uint32_t worker_server::here(net::role part) const {
  return static_cast<std::uint32_t>(std::ranges::count_if(guests_, [part](const auto& entry) {
    return entry.second.joined && entry.second.terms.you.part == part;
  }));
}

std::uint32_t worker_server::joined() const {
  const std::lock_guard lock(mutex_);
  return here(net::role::worker);
}

std::string worker_server::attendance() const {
  const std::lock_guard lock(mutex_);
  const std::string workers = fmt::format("{} of {} workers", here(net::role::worker), plan_.workers());
  return options_.shard_hosts == 0 ? workers
                                   : fmt::format("{} and {} of {} parameter hosts", workers,
                                                 here(net::role::shard), options_.shard_hosts);
}

bool worker_server::wait_for(std::chrono::milliseconds span) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, span, [&] {
    return here(net::role::worker) >= plan_.workers() && here(net::role::shard) >= options_.shard_hosts;
  });
}

void worker_server::tell(const std::string& words) const {
  if (options_.on_event) options_.on_event(words);
}

net::session_events& worker_server::let_in(net::session& s) {
  const net::welcome terms = s.terms();
  auto by = std::make_shared<link>(
      *network_, link_events{[this, id = terms.session](const net::welcome&) { on_joined(id); },
                             [this, id = terms.session](const net::ending& why) { on_ended(id, why); }});
  by->attach(*end_, s);
  const std::lock_guard lock(mutex_);
  return *guests_.emplace(terms.session, guest{terms, std::move(by)}).first->second.by;
}

void worker_server::turned_away(const net::refusal& why) { tell("refused: " + why.words()); }

void worker_server::on_joined(std::uint64_t session) {
  net::member who;
  {
    const std::lock_guard lock(mutex_);
    guest& g = guests_.at(session);
    g.joined = true;
    who = g.terms.you;
    if (who.part == net::role::watcher)
      greet_watcher(g);
    else if (running_ && who.part == net::role::worker)
      greet_worker(g, true);
    changed_.notify_all();
  }
  leave_system();
  if (who.part != net::role::watcher) tell(to_string(who) + " has joined");
}

void worker_server::on_ended(std::uint64_t session, const net::ending& why) {
  net::member who;
  caf::actor coordinator, host;
  incarnation life{};
  {
    const std::lock_guard lock(mutex_);
    const auto found = guests_.find(session);
    who = found->second.terms.you;
    life = {found->second.terms.incarnation - 1};
    if (found->second.host && running_) coordinator = running_->actors.peers.coordinator;
    host = found->second.host;
    if (who.part == net::role::shard && !found->second.shards.empty()) lost_shards_ = why.words;
    guests_.erase(found);
    changed_.notify_all();
  }
  if (host) send_anonymously(host, give_up{});
  if (who.part == net::role::watcher) return;
  // Also if its actor had not joined yet, whose end nobody would notice.
  if (coordinator && who.part == net::role::worker)
    send_anonymously(coordinator, worker_lost{{who.number}, why.words, life});
  if (why.reason == net::end_reason::left)
    tell(fmt::format("{} has left: {}", to_string(who), why.words));
  else
    tell(fmt::format("lost {}", why.words));
}

std::vector<caf::actor> worker_server::place_shards(shard_duties with) {
  with.wire = to_string(wire_);
  std::vector<caf::actor> shards;
  const std::vector<placed> places = deal_shards(shards);
  for (const placed& host : places) {
    std::vector<shard_terms> terms; // drawn and written without a lock, since they are as large as the model
    for (const std::uint32_t s : host.shards) terms.push_back(terms_of(plan_, shard_index{s}, with));
    std::string text = write_terms(std::move(terms));
    if (text.size() > largest_)
      throw std::runtime_error(
          fmt::format("a parameter host would hold {} MiB of weights, more than {}: name more hosts",
                      text.size() >> 20, largest_ >> 20));
    greet_shards(host, std::move(text));
  }
  return shards;
}

/// Says which host holds which shards, by turns, and makes a stand-in for each shard.
std::vector<worker_server::placed> worker_server::deal_shards(std::vector<caf::actor>& shards) {
  const std::lock_guard lock(mutex_);
  std::vector<guest*> hosts;
  for (auto& [session, g] : guests_)
    if (g.joined && g.terms.you.part == net::role::shard) hosts.push_back(&g);
  if (hosts.size() < options_.shard_hosts) throw std::runtime_error("a parameter host has gone again");
  std::ranges::sort(hosts, {}, [](const guest* g) { return g->terms.you.number; });
  for (std::uint32_t s = 0; s < plan_.options.shards; ++s) {
    guest& g = *hosts[s % hosts.size()];
    g.shards.push_back(s);
    shards.push_back(g.by->add_far(system_, {duty::shard, s}));
  }
  std::vector<placed> places;
  for (guest* g : hosts) {
    for (std::uint32_t s = 0; s < shards.size(); ++s) // by which shards of two hosts reach each other
      if (!std::ranges::count(g->shards, s)) g->by->add({duty::shard, s}, shards[s]);
    places.push_back({g->terms.session, g->by, g->shards});
  }
  return places;
}

/// The desk may outlive this object, so it knows it by a door that is shut at the end.
void worker_server::greet_shards(const placed& host, std::string terms) {
  const auto ready = [door = door_, id = host.session](const std::string& address) {
    const std::lock_guard open(door->mutex);
    if (door->server) door->server->note_ready(id, address);
  };
  const caf::actor desk = host.by->add(
      {duty::host}, [&] { return spawn<shard_desk>(system_, host.by, std::move(terms), ready); });
  const std::lock_guard lock(mutex_);
  if (const auto found = guests_.find(host.session); found != guests_.end())
    found->second.host = desk;
  else
    send_anonymously(desk, give_up{});
}

void worker_server::note_ready(std::uint64_t session, const std::string& address) {
  const std::lock_guard lock(mutex_);
  const auto found = guests_.find(session);
  if (found == guests_.end()) return;
  found->second.address = address;
  changed_.notify_all();
}

bool worker_server::wait_for_shards(std::chrono::milliseconds span) {
  std::unique_lock lock(mutex_);
  const bool there = changed_.wait_for(lock, span, [&] {
    return lost_shards_ || std::ranges::none_of(guests_, [](const auto& entry) {
             return !entry.second.shards.empty() && entry.second.address.empty();
           });
  });
  if (lost_shards_) throw std::runtime_error("lost " + *lost_shards_);
  return there;
}

/// Workers that had joined may have gone again before the run has begun. Nobody would wait for less.
void worker_server::tell_missing(const caf::actor& coordinator) const {
  std::vector<bool> there(plan_.workers());
  for (const auto& [session, g] : guests_)
    if (g.joined && g.terms.you.part == net::role::worker && g.terms.you.number < there.size())
      there[g.terms.you.number] = true;
  for (std::uint32_t r = 0; r < there.size(); ++r)
    if (!there[r]) send_anonymously(coordinator, worker_lost{{r}, "it had gone before the run began"});
}

void worker_server::begin(run_actors actors, std::shared_ptr<const time_source> time) {
  const std::lock_guard lock(mutex_);
  running_.emplace(running{std::move(actors), std::move(time)});
  const run_actors& of_run = running_->actors;
  for (auto& [session, g] : guests_) {
    if (!g.shards.empty()) {
      g.by->add({duty::coordinator}, of_run.peers.coordinator);
      g.by->add({duty::tracker}, of_run.peers.tracker);
      if (of_run.recorder) g.by->add({duty::recorder}, of_run.recorder);
      if (of_run.evaluator) g.by->add({duty::evaluator}, of_run.evaluator);
    }
    if (g.joined && g.terms.you.part == net::role::worker) greet_worker(g, false);
  }
  tell_missing(of_run.peers.coordinator);
}

void worker_server::greet_worker(guest& g, bool late) {
  const rank worker{g.terms.you.number};
  worker_terms terms = terms_of(plan_, worker, {g.terms.incarnation - 1}, late);
  for (const auto& [session, host] : guests_)
    if (!host.shards.empty()) terms.shard_hosts.push_back({host.address, host.shards});
  terms.wire = to_string(wire_);
  terms.data = data_;
  exchange_terms exchange{plan_.run,      worker,
                          terms.life,     plan_.layout,
                          running_->time, std::make_shared<exchange_clock>(plan_.layout->shard_count())};
  exchange.wire = wire_;
  exchange.all_reduce = plan_.options.all_reduce;
  const worker_peers& peers = running_->actors.peers;
  link& by = *g.by;
  by.take_form(kind_of<push_gradient>(), std::make_unique<gradient_form>(exchange));
  by.take_form(kind_of<shard_weights>(), std::make_unique<weights_form>(exchange));
  by.take_form(kind_of<dealt_batch>(), std::make_unique<batch_form>());
  by.add({duty::coordinator}, peers.coordinator);
  by.add({duty::feeder}, peers.feeder);
  by.add({duty::tracker}, peers.tracker);
  for (std::uint32_t s = 0; terms.shard_hosts.empty() && s < peers.shards.size(); ++s)
    by.add({duty::shard, s}, peers.shards[s]);
  by.add_far(system_, {duty::worker, worker.value});
  g.host = spawn<worker_desk>(system_, g.by, [this, terms] { return write_terms(plan_, terms); });
  by.add({duty::host}, g.host);
}

void worker_server::greet_watcher(guest& g) {
  g.host = spawn<watcher_desk, caf::detached>(system_, g.by, answers_);
  g.by->add({duty::host}, g.host);
}

void worker_server::end(const std::string& words) {
  if (std::exchange(closed_, true)) return;
  network_->post(*end_, [this, words](net::instant now) { end_->leave_all(words, now); });
  network_->forget(*end_);
}

} // namespace mailgrad::remote
