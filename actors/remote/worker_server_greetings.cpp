#include <mailgrad/actors/remote/worker_server.hpp>

#include <mailgrad/actors/remote/batch_form.hpp>
#include <mailgrad/actors/remote/gradient_form.hpp>
#include <mailgrad/actors/remote/guest_host.hpp>
#include <mailgrad/actors/remote/weights_form.hpp>
#include <mailgrad/engine/plan/worker_terms.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

// What the server tells each process that has joined: its terms, and who is who.

namespace mailgrad::remote {
using messaging::send_anonymously, messaging::spawn, messaging::spawn_apart;

namespace {

/// Those who had come hear of it.
[[noreturn]] void fail_before_begin(run_verdict& verdict, const std::string& why) {
  verdict.fail(why);
  throw std::runtime_error(why);
}

} // namespace

std::vector<caf::actor> worker_server::place_shards(shard_duties with) {
  with.wire = to_string(wire_);
  std::vector<caf::actor> shards;
  const std::vector<placed> places = deal_shards(shards);
  for (const placed& host : places) {
    std::vector<shard_terms> terms; // drawn and written without a lock, since they are as large as the model
    for (const std::uint32_t s : host.shards) terms.push_back(terms_of(plan_, shard_index{s}, with));
    std::string text = write_terms(std::move(terms));
    if (text.size() > largest_)
      fail_before_begin(
          *verdict_,
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
  if (hosts.size() < options_.shard_hosts) fail_before_begin(*verdict_, "a parameter host has gone again");
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
    members_.holds(g->terms.you, g->shards);
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

/// The caller holds the mutex.
bool worker_server::shards_here() const {
  if (lost_shards_) fail_before_begin(*verdict_, "lost " + *lost_shards_);
  return std::ranges::none_of(guests_, [](const auto& entry) {
    return !entry.second.shards.empty() && entry.second.address.empty();
  });
}

bool worker_server::all_have_shards() const {
  const std::lock_guard lock(mutex_);
  return shards_here();
}

bool worker_server::wait_for_shards(std::chrono::milliseconds span) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, span, [this] { return shards_here(); });
}

/// A replay has what the recording tells, so a worker that computes on something else takes no part in a run
/// that is recorded or replayed. One beyond those of the beginning computes as the replay will have it
/// (devices_of()). Empty if it may.
std::string worker_server::unlike_recorded(const guest& g) const {
  const training_options& o = plan_.options;
  if ((o.record.empty() && !o.replay) || !o.elsewhere || o.elsewhere->empty()) return {};
  const worker_computer& expected = (*o.elsewhere)[g.terms.you.number % o.elsewhere->size()];
  const worker_computer& found = g.devices.what;
  if (found.has_card() && found.name == told_devices{}.what.name)
    return fmt::format("the recording of this run says on what each worker computes, and {} did not say it",
                       to_string(g.terms.you));
  if (found == expected) return {};
  const auto in_words = [](const worker_computer& w) {
    return w.has_card() ? fmt::format("{} ({})", w.name, w.products) : w.name;
  };
  return fmt::format(
      "the recording of this run says on what each worker computes: expected {} for {}, found {}",
      in_words(expected), to_string(g.terms.you), in_words(found));
}

void worker_server::greet_worker(guest& g, bool late) {
  if (const std::string why = unlike_recorded(g); !why.empty()) {
    g.joined = false; // the run does without it
    return g.by->fail(why);
  }
  const rank worker{g.terms.you.number};
  worker_terms terms = terms_of(plan_, worker, life_of(g.terms), late);
  for (const auto& [session, host] : guests_)
    if (!host.shards.empty()) terms.shard_hosts.push_back({host.address, host.shards});
  terms.wire = to_string(wire_);
  if (g.devices.what.has_card()) terms.sums_apart = false;
  terms.data = data_;
  exchange_terms exchange{plan_.run,      worker,
                          terms.life,     plan_.layout,
                          running_->time, std::make_shared<exchange_clock>(plan_.layout->shard_count())};
  exchange.wire = wire_;
  exchange.all_reduce = plan_.options.all_reduce;
  exchange.rooms = rooms_;
  exchange.on_way = bounds_.on_way;
  exchange.credit = bounds_.credit;
  exchange.session = g.terms.session;
  exchange.devices = plan_.devices_per_worker();
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
  bounds_.share_credit(g.terms.session, worker, g.by);
  g.host = spawn<worker_desk>(
      system_, g.by, [this, terms] { return write_terms(plan_, terms); }, peers.coordinator, verdict_);
  by.add({duty::host}, g.host);
}

void worker_server::greet_late_worker(guest& g) {
  const auto& own = plan_.options.parameter_actor;
  if (!own) return greet_worker(g, true);
  g.by->leave(fmt::format("this run takes no worker that comes later, since parameter actor '{}' cannot tell "
                          "what the one before had done",
                          own->name));
}

void worker_server::greet_watcher(guest& g) {
  g.host = spawn_apart<watcher_desk>(system_, g.by, answers_);
  g.by->add({duty::host}, g.host);
}

} // namespace mailgrad::remote
