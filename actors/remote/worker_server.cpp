#include <mailgrad/actors/remote/worker_server.hpp>

#include <mailgrad/actors/remote/batch_form.hpp>
#include <mailgrad/actors/remote/far_actor.hpp>
#include <mailgrad/actors/remote/gradient_form.hpp>
#include <mailgrad/actors/remote/guest_host.hpp>
#include <mailgrad/actors/remote/weights_form.hpp>
#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/engine/plan/worker_terms.hpp>
#include <mailgrad/net/tcp/tcp_network.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <utility>

namespace mailgrad::remote {
using messaging::send_anonymously, messaging::spawn;

namespace {

constexpr std::uint32_t most_watchers = 16;

void require_spreadable(const run_plan& plan) {
  const auto deny = [](const std::string& what) {
    throw std::invalid_argument("serve: workers of other processes " + what);
  };
  if (plan.shares_block())
    deny("share no block of memory, so policy 'hogwild' is for one process; choose another policy");
  if (plan.options.parameter_actor)
    deny(fmt::format("are not known to work with parameter actor '{}'; use Mailgrad's own",
                     plan.options.parameter_actor->name));
  if (plan.options.devices.size() != plan.workers())
    deny("have one device each; name as many workers as devices");
}

std::uint64_t drawn() {
  thread_local std::random_device source;
  return std::uint64_t{source()} << 32 | source();
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

} // namespace

worker_server::worker_server(serve_options options, const run_plan& plan, caf::actor_system& system,
                             run_answers answers)
    : options_(std::move(options)), plan_(plan), system_(system), answers_(std::move(answers)),
      network_(options_.network) {
  require_spreadable(plan);
  write_terms(plan, terms_of(plan, {0})); // refuses a model that cannot travel before anybody listens
  if (!network_) network_ = std::make_shared<net::tcp_network>();
  net::server_options terms;
  terms.demands = net::demands_of(features_of(plan), {net::role::worker, net::role::watcher}, {});
  terms.seats = {{net::role::worker, plan.seats()}, {net::role::watcher, most_watchers}};
  terms.run = plan.run.value;
  terms.times = options_.times;
  terms.draw = drawn;
  end_ = std::make_unique<net::server_end>(std::move(terms), static_cast<net::doorkeeper&>(*this));
  address_ = network_->listen(*end_, options_.listen);
}

worker_server::~worker_server() { end("the server has ended"); }

std::uint32_t worker_server::joined() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::uint32_t>(std::ranges::count_if(guests_, [](const auto& entry) {
    return entry.second.joined && entry.second.terms.you.part == net::role::worker;
  }));
}

bool worker_server::wait_for(std::chrono::milliseconds span) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, span, [&] {
    return std::ranges::count_if(guests_, [](const auto& entry) {
             return entry.second.joined && entry.second.terms.you.part == net::role::worker;
           }) >= plan_.workers();
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
    else if (running_)
      greet_worker(g, true);
    changed_.notify_all();
  }
  leave_system();
  if (who.part == net::role::worker) tell(to_string(who) + " has joined");
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
    if (found->second.host && running_) coordinator = running_->peers.coordinator;
    host = found->second.host;
    guests_.erase(found);
    changed_.notify_all();
  }
  if (host) send_anonymously(host, give_up{});
  if (who.part != net::role::worker) return;
  // Also if its actor had not joined yet, whose end nobody would notice.
  if (coordinator) send_anonymously(coordinator, worker_lost{{who.number}, why.words, life});
  if (why.reason == net::end_reason::left)
    tell(fmt::format("{} has left: {}", to_string(who), why.words));
  else
    tell(fmt::format("lost {}", why.words));
}

void worker_server::begin(worker_peers peers, std::shared_ptr<const time_source> time) {
  const std::lock_guard lock(mutex_);
  running_.emplace(running{std::move(peers), std::move(time)});
  for (auto& [session, g] : guests_)
    if (g.joined && g.terms.you.part == net::role::worker) greet_worker(g, false);
}

void worker_server::greet_worker(guest& g, bool late) {
  const rank worker{g.terms.you.number};
  const worker_terms terms = terms_of(plan_, worker, {g.terms.incarnation - 1}, late);
  const exchange_terms exchange{
      plan_.run,    worker,         terms.life,
      plan_.layout, running_->time, std::make_shared<exchange_clock>(plan_.layout->shard_count())};
  link& by = *g.by;
  by.take_form(kind_of<push_gradient>(), std::make_unique<gradient_form>(exchange));
  by.take_form(kind_of<shard_weights>(), std::make_unique<weights_form>(exchange));
  by.take_form(kind_of<dealt_batch>(), std::make_unique<batch_form>());
  by.add({duty::coordinator}, running_->peers.coordinator);
  by.add({duty::feeder}, running_->peers.feeder);
  by.add({duty::tracker}, running_->peers.tracker);
  for (std::uint32_t s = 0; s < running_->peers.shards.size(); ++s)
    by.add({duty::shard, s}, running_->peers.shards[s]);
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
