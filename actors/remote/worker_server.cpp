#include <mailgrad/actors/remote/worker_server.hpp>

#include <numeric>

namespace mailgrad::remote {

using messaging::send_anonymously, messaging::spawn, messaging::spawn_apart;

namespace {

/// Besides one for each slot: a worker of several devices asks how many the run wants before it joins.
constexpr std::uint32_t most_watchers = 16;

void require_spreadable(const run_plan& plan, std::uint32_t hosts, const wire_format& wire) {
  const auto deny = [](const std::string& what) {
    throw std::invalid_argument("serve: workers of other processes " + what);
  };
  if (plan.shares_block())
    deny("share no block of memory, so policy 'hogwild' is for one process; choose another policy");
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
}

/// What a peer may name of its own, to be refused if it is another run, model or data set.
net::features features_of(const run_plan& plan) {
  net::features says{{std::string(net::feature::run), net::key_text(plan.run.value)},
                     {std::string(net::feature::devices), std::to_string(plan.devices_per_worker())}};
  for (const auto& [name, value] : facts_of(plan.model, plan.request, *plan.data, plan.options)) {
    if (name == model_fact) says[std::string(net::feature::model)] = value;
    if (name == samples_fact) says[std::string(net::feature::data)] = value;
  }
  return says;
}

/// The names of so many devices as a worker says them. What it says is a stranger's, so it is read.
std::vector<std::string> devices_in(const net::features& says, std::uint32_t count) {
  std::vector<std::string> names;
  try {
    std::string_view rest = net::found_in(says, net::feature::device_names).value_or("");
    while (!rest.empty() && names.size() < count) {
      const std::size_t end = std::min(rest.find(','), rest.size());
      names.push_back(to_string(parse_device(rest.substr(0, end))));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  } catch (const std::exception&) {
    names.clear(); // of a build that writes them in another way
  }
  names.resize(count, "unknown");
  return names;
}

/// What a worker says that it computes on.
worker_computer computer_in(const net::features& says) {
  const auto said = [&](std::string_view name, const char* otherwise) {
    return net::printable(net::found_in(says, name).value_or(otherwise), net::most_feature_value_bytes);
  };
  return {said(net::feature::computer, "unknown"), said(net::feature::products, "")};
}

/// What a worker needs to find the samples on its own disk.
data_terms data_of(const run_plan& plan, const net::features& says) {
  return {plan.data->name, plan.data->train.size(), says.at(std::string(net::feature::data)),
          plan.data->source};
}

/// Those who had come hear of it.
[[noreturn]] void fail_before_begin(run_verdict& verdict, const std::string& why) {
  verdict.fail(why);
  throw std::runtime_error(why);
}

double seconds_between(net::instant before, net::instant now) {
  return std::chrono::duration<double>(now - before).count();
}

} // namespace

worker_server::worker_server(serve_options options, const run_plan& plan, caf::actor_system& system,
                             run_answers answers)
    : options_(std::move(options)), wire_(parse_wire_format(options_.wire)), plan_(plan), system_(system),
      answers_(std::move(answers)), network_(options_.network) {
  require_spreadable(plan, options_.shard_hosts, wire_);
  server_ref_->server = this;
  // Refuses what cannot travel before anybody listens.
  const std::uint64_t of_terms = write_terms(plan, terms_of(plan, rank{0})).size();
  if (options_.shard_hosts > 0) write_terms({terms_of(plan, shard_index{0}, {})});
  if (!network_) network_ = net::usual_network(options_.listen);
  net::server_options terms;
  const net::features says = features_of(plan);
  data_ = data_of(plan, says);
  terms.demands = net::demands_of(says, {net::role::worker, net::role::shard, net::role::watcher}, {});
  terms.slots = {{net::role::worker, plan.slots()},
                 {net::role::shard, options_.shard_hosts},
                 {net::role::watcher, plan.slots() + most_watchers}};
  terms.run = plan.run.value;
  terms.devices = plan.devices_per_worker();
  terms.times = options_.times;
  terms.most_body_bytes = largest_ = std::max(of_terms, largest_body(plan, options_.shard_hosts));
  terms.draw = [by = network_] { return by->draw_key(); };
  bound_gradients(terms);
  end_ = std::make_unique<net::server_end>(std::move(terms), static_cast<net::doorkeeper&>(*this));
  heap_ = net::heap_for(options_.listen, kept_for(options_.times));
  end_->lend_from(heap_);
  bounds_.open(network_, *end_);
  address_ = network_->listen(*end_, options_.listen);
}

/// A parameter actor of another author may keep the messages themselves, and would then wait for ever.
void worker_server::bound_gradients(net::server_options& terms) {
  bounds_.buffers = std::make_shared<gradient_buffers>(plan_.layout);
  if (!holds_shards() || plan_.options.parameter_actor) return;
  std::vector<std::uint32_t> shards(plan_.layout->shard_count());
  std::iota(shards.begin(), shards.end(), 0U);
  bounds_.on_way = transit_by(options_.listen, *plan_.layout, shards);
  // The order of a replay is given, and workers that add their gradients up send one.
  if (!plan_.options.replay && !plan_.options.all_reduce)
    bounds_.credit =
        credit_by(options_.listen, *plan_.layout, shards, plan_.slots(), plan_.devices_per_worker());
  bounds_.apply(terms);
}

worker_server::~worker_server() {
  end("the server has ended");
  const std::lock_guard lock(server_ref_->mutex);
  server_ref_->server = nullptr;
}

std::vector<std::string> worker_server::devices(std::uint32_t workers) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  for (std::uint32_t r = 0; r < workers; ++r) {
    const auto told = devices_.find(r);
    for (std::uint32_t d = 0; d < plan_.devices_per_worker(); ++d)
      all.push_back(told == devices_.end() ? "unknown" : told->second.names[d]);
  }
  return all;
}

std::vector<worker_computer> worker_server::computers() const {
  const std::lock_guard lock(mutex_);
  std::vector<worker_computer> all;
  const worker_computer otherwise = devices_.empty() ? told_devices{}.what : devices_.begin()->second.what;
  for (std::uint32_t r = 0; r < plan_.workers(); ++r) {
    const auto told = devices_.find(r);
    all.push_back(told == devices_.end() ? otherwise : told->second.what);
  }
  return all;
}

std::string worker_server::attendance() const {
  const std::lock_guard lock(mutex_);
  const std::string workers = fmt::format("{} of {} workers", here(net::role::worker), plan_.workers());
  return options_.shard_hosts == 0 ? workers
                                   : fmt::format("{} and {} of {} parameter hosts", workers,
                                                 here(net::role::shard), options_.shard_hosts);
}

std::vector<run_member> worker_server::members(std::chrono::milliseconds span) const {
  const moments heard = ask_when_heard(span);
  const std::lock_guard lock(mutex_);
  return members_.told(network_->now(), [&](const net::member& who) {
    const auto found = heard.find(who);
    return found == heard.end() ? std::nullopt : std::optional(found->second);
  });
}

/// Sessions are the network's, so their moments are read on its thread.
worker_server::moments worker_server::ask_when_heard(std::chrono::milliseconds span) const {
  {
    const std::lock_guard lock(mutex_);
    if (members_.is_closed()) return {};
  }
  const auto asked = std::make_shared<std::promise<moments>>();
  std::future<moments> answer = asked->get_future();
  network_->post(*end_, [asked, ref = server_ref_](net::instant) {
    moments heard;
    const std::lock_guard lock(ref->mutex);
    if (ref->server) heard = ref->server->moments_heard();
    asked->set_value(std::move(heard));
  });
  // If the network has forgotten the server, which has ended, no answer comes.
  return answer.wait_for(span) == std::future_status::ready ? answer.get() : moments();
}

worker_server::moments worker_server::moments_heard() const {
  const std::lock_guard lock(mutex_);
  moments all;
  for (const auto& [session, g] : admitted_)
    if (g.joined) all[g.terms.you] = g.by->last_heard();
  return all;
}

std::vector<wait_reason> worker_server::waits() const {
  const std::lock_guard lock(mutex_);
  std::vector<wait_reason> all;
  for (const auto& [session, g] : admitted_) {
    if (!g.by) continue;
    std::ranges::move(
        waits_at_admission(session, *g.by, g.terms.you, bounds_, plan_.options.shards, "the server"),
        std::back_inserter(all));
  }
  return all;
}

net::session_events& worker_server::let_in(net::session& s, const std::string& from) {
  const net::welcome terms = s.terms();
  auto by = std::make_shared<channel>(
      *network_, channel_events{[this, id = terms.session](const net::welcome&) { on_joined(id); },
                                [this, id = terms.session](const net::ending& why) { on_ended(id, why); }});
  by->attach(*end_, s);
  const std::lock_guard lock(mutex_);
  admitted_peer g{terms, std::move(by), from};
  if (terms.you.part == net::role::worker)
    g.devices = {devices_in(s.peer_says(), plan_.devices_per_worker()), computer_in(s.peer_says())};
  return *admitted_.emplace(terms.session, std::move(g)).first->second.by;
}

void worker_server::on_joined(std::uint64_t session) {
  net::member who;
  std::string from;
  {
    const std::lock_guard lock(mutex_);
    admitted_peer& g = admitted_.at(session);
    g.joined = true;
    who = g.terms.you;
    if (who.part == net::role::worker) came_[who.number] = g.terms.incarnation;
    from = g.from;
    if (who.part == net::role::watcher) {
      g.host = spawn_apart<watcher_handler>(system_, g.by, answers_);
      g.by->add({duty::host}, g.host);
    } else {
      members_.joined(g.terms, g.from, g.devices.names, network_->now());
      if (running_ && who.part == net::role::worker) greet_worker(g, true);
    }
    if (g.joined && who.part == net::role::worker) devices_[who.number] = g.devices;
    changed_.notify_all();
  }
  if (who.part == net::role::watcher) return;
  const std::string words = fmt::format("{} has joined from {}", to_string(who), from);
  tell_observer(words);
  tell(words);
}

/// The observer of a run that has begun.
void worker_server::tell_observer(std::string words) const {
  const std::lock_guard lock(mutex_);
  if (!running_ || !running_->actors.observer) return;
  send_anonymously(
      running_->actors.observer,
      event_noted{members_changed{std::move(words), here(net::role::worker), here(net::role::shard)}});
}

void worker_server::on_ended(std::uint64_t session, const net::ending& why) {
  net::member who;
  caf::actor coordinator, host;
  incarnation_number incarnation{};
  {
    const std::lock_guard lock(mutex_);
    const auto found = admitted_.find(session);
    who = found->second.terms.you;
    incarnation = incarnation_of(found->second.terms);
    if (found->second.host && running_) coordinator = running_->actors.peers.coordinator;
    host = found->second.host;
    if (who.part == net::role::shard && !found->second.shards.empty()) lost_shards_ = why.words;
    members_.ended(found->second.terms, why, found->second.by->last_heard(), network_->now());
    admitted_.erase(found);
    changed_.notify_all();
  }
  bounds_.end(session);
  if (host) send_anonymously(host, give_up{});
  if (who.part == net::role::watcher) return;
  // Also if its actor had not joined yet, whose end nobody would notice.
  if (coordinator && who.part == net::role::worker)
    send_anonymously(coordinator, worker_lost{{who.number}, why.words, incarnation});
  const run_member::state is = state_after(why);
  const bool lost = is == run_member::state::lost;
  const std::string words =
      lost ? "lost " + why.words : fmt::format("{} has left: {}", to_string(who), why.words);
  if (is != run_member::state::done) tell_observer(words); // that the run ends is no news of its members
  lost ? tell_trouble(words) : tell(words);
}

/// Workers that had joined may have gone again before the run has begun. Nobody would wait for less.
void worker_server::tell_missing(const caf::actor& coordinator) const {
  std::vector<bool> there(plan_.workers());
  for (const auto& [session, g] : admitted_)
    if (g.joined && g.terms.you.part == net::role::worker && g.terms.you.number < there.size())
      there[g.terms.you.number] = true;
  for (std::uint32_t r = 0; r < there.size(); ++r)
    if (!there[r]) send_anonymously(coordinator, worker_lost{{r}, "it had gone before the run began"});
}

void worker_server::begin(run_actors actors, std::shared_ptr<const time_source> time) {
  const std::lock_guard lock(mutex_);
  running_.emplace(running{std::move(actors), std::move(time)});
  running_->first_incarnation = came_;
  for (std::uint32_t r = 0; r < plan_.workers(); ++r) // one that has gone again has had its first
    running_->first_incarnation.try_emplace(r, 0);
  const run_actors& of_run = running_->actors;
  for (auto& [session, g] : admitted_) {
    if (g.shards.empty()) continue;
    g.by->add({duty::coordinator}, of_run.peers.coordinator);
    g.by->add({duty::tracker}, of_run.peers.tracker);
    if (of_run.recorder) g.by->add({duty::recorder}, of_run.recorder);
    if (of_run.evaluator) g.by->add({duty::evaluator}, of_run.evaluator);
  }
  for (auto& [session, g] : admitted_) // when every shard knows to whom it tells what they do
    if (g.joined && g.terms.you.part == net::role::worker) greet_worker(g, false);
  tell_missing(of_run.peers.coordinator);
  if (of_run.observer)
    send_anonymously(of_run.observer, event_noted{members_changed{"the run begins", here(net::role::worker),
                                                                  here(net::role::shard)}});
}

void worker_server::end(const std::string& words, const std::string& to_workers) {
  if (std::exchange(closed_, true)) return;
  bounds_.close();
  {
    const std::lock_guard lock(mutex_);
    members_.close(network_->now());
    if (running_) running_->actors.observer = nullptr;
  }
  network_->post(*end_, [this, words, to_workers](net::instant now) {
    end_->end(net::role::worker, verdict_->end_of_work(to_workers.empty() ? words : to_workers), now);
    end_->end(net::role::shard, verdict_->end_of_work(words), now);
    end_->leave_all(words, now);
  });
  network_->forget(*end_);
  if (const std::string line = refused_.rest(); !line.empty()) tell_trouble(line);
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
  std::vector<admitted_peer*> hosts;
  for (auto& [session, g] : admitted_)
    if (g.joined && g.terms.you.part == net::role::shard) hosts.push_back(&g);
  if (hosts.size() < options_.shard_hosts) fail_before_begin(*verdict_, "a parameter host has gone again");
  std::ranges::sort(hosts, {}, [](const admitted_peer* g) { return g->terms.you.number; });
  for (std::uint32_t s = 0; s < plan_.options.shards; ++s) {
    admitted_peer& g = *hosts[s % hosts.size()];
    g.shards.push_back(s);
    shards.push_back(g.by->add_far(system_, {duty::shard, s}));
  }
  std::vector<placed> places;
  for (admitted_peer* g : hosts) {
    for (std::uint32_t s = 0; s < shards.size(); ++s) // by which shards of two hosts reach each other
      if (!std::ranges::count(g->shards, s)) g->by->add({duty::shard, s}, shards[s]);
    members_.holds(g->terms.you, g->shards);
    places.push_back({g->terms.session, g->by, g->shards});
  }
  return places;
}

/// The handler may outlive this object, so it knows it by a reference that is cleared at the end.
void worker_server::greet_shards(const placed& host, std::string terms) {
  const auto ready = [ref = server_ref_, id = host.session](const std::string& address) {
    const std::lock_guard lock(ref->mutex);
    if (ref->server) ref->server->note_ready(id, address);
  };
  const caf::actor handler = host.by->add(
      {duty::host}, [&] { return spawn<shard_handler>(system_, host.by, std::move(terms), ready); });
  const std::lock_guard lock(mutex_);
  if (const auto found = admitted_.find(host.session); found != admitted_.end())
    found->second.host = handler;
  else
    send_anonymously(handler, give_up{});
}

void worker_server::note_ready(std::uint64_t session, const std::string& address) {
  const std::lock_guard lock(mutex_);
  const auto found = admitted_.find(session);
  if (found == admitted_.end()) return;
  found->second.address = address;
  changed_.notify_all();
}

/// The caller holds the mutex.
bool worker_server::shards_here() const {
  if (lost_shards_) fail_before_begin(*verdict_, "lost " + *lost_shards_);
  return std::ranges::none_of(admitted_, [](const auto& entry) {
    return !entry.second.shards.empty() && entry.second.address.empty();
  });
}

/// A replay has what the recording tells, so a worker that computes on something else takes no part in a run
/// that is recorded or replayed. One beyond those of the beginning computes as the replay will have it
/// (devices_of()). Empty if it may.
std::string worker_server::unlike_recorded(const admitted_peer& g) const {
  const training_options& o = plan_.options;
  if ((o.record.empty() && !o.replay) || !o.elsewhere || o.elsewhere->empty()) return {};
  const worker_computer& expected = (*o.elsewhere)[g.terms.you.number % o.elsewhere->size()];
  const worker_computer& found = g.devices.what;
  if (found.has_gpu() && found.name == told_devices{}.what.name)
    return fmt::format("the recording of this run says on what each worker computes, and {} did not say it",
                       to_string(g.terms.you));
  if (found == expected) return {};
  const auto in_words = [](const worker_computer& w) {
    return w.has_gpu() ? fmt::format("{} ({})", w.name, w.products) : w.name;
  };
  return fmt::format(
      "the recording of this run says on what each worker computes: expected {} for {}, found {}",
      in_words(expected), to_string(g.terms.you), in_words(found));
}

/// The caller holds the mutex.
void worker_server::greet_worker(admitted_peer& g, bool late) {
  if (const auto& own = plan_.options.parameter_actor; own && late)
    return g.by->leave(fmt::format("this run takes no worker that comes later, since parameter actor '{}' "
                                   "cannot tell what the one before had done",
                                   own->name));
  if (const std::string why = unlike_recorded(g); !why.empty()) {
    g.joined = false; // the run does without it
    return g.by->fail(why);
  }
  const rank worker{g.terms.you.number};
  worker_terms terms = terms_of(plan_, worker, incarnation_of(g.terms), late);
  for (const auto& [session, host] : admitted_)
    if (!host.shards.empty()) terms.shard_hosts.push_back({host.address, host.shards});
  terms.wire = to_string(wire_);
  if (g.devices.what.has_gpu()) terms.sums_apart = false;
  terms.data = data_;
  const worker_peers& peers = running_->actors.peers;
  channel& by = *g.by;
  by.take_form(kind_of<dealt_batch>(), std::make_unique<batch_form>());
  by.add({duty::coordinator}, peers.coordinator);
  by.add({duty::feeder}, peers.feeder);
  by.add({duty::tracker}, peers.tracker);
  for (std::uint32_t s = 0; terms.shard_hosts.empty() && s < peers.shards.size(); ++s)
    by.add({duty::shard, s}, peers.shards[s]);
  exchange_terms exchange{plan_.run, worker, terms.incarnation, plan_.layout, running_->time};
  exchange.wire = wire_;
  exchange.all_reduce = plan_.options.all_reduce;
  exchange.bounds = bounds_;
  exchange.session = g.terms.session;
  exchange.devices = plan_.devices_per_worker();
  serve_exchange(g.by, exchange, system_);
  g.host = spawn<worker_handler>(
      system_, g.by, [this, terms] { return write_terms(plan_, terms); }, peers.coordinator, verdict_);
  by.add({duty::host}, g.host);
}

run_member::state state_after(const net::ending& why) {
  if (!is_in_order(why.reason)) return run_member::state::lost;
  const bool done = why.reason == net::end_reason::run_failed || why.words == work_is_done;
  return done ? run_member::state::done : run_member::state::left;
}

void member_list::joined(const net::welcome& terms, const std::string& from, std::vector<std::string> devices,
                         net::instant now) {
  entry& e = all_[terms.you];
  e = {.incarnation = terms.incarnation,
       .since = now,
       .from = from,
       .devices = std::move(devices),
       .losses = e.losses,
       .why = std::move(e.why)};
}

void member_list::ended(const net::welcome& terms, const net::ending& why, net::instant heard,
                        net::instant now) {
  const auto found = all_.find(terms.you);
  if (closed_ || found == all_.end() || found->second.incarnation < terms.incarnation) return;
  entry& e = found->second;
  const run_member::state is = state_after(why);
  const bool lost = is == run_member::state::lost;
  if (lost) ++e.losses;
  if (lost || is == run_member::state::left) e.why = why.words;
  if (e.incarnation != terms.incarnation) return;
  e.is = is;
  e.since = now;
  e.heard = heard;
}

void member_list::close(net::instant now) {
  closed_ = true;
  for (auto& [who, e] : all_) {
    if (e.is != run_member::state::joined) continue;
    e.is = run_member::state::done;
    e.since = now;
  }
}

std::vector<run_member>
member_list::told(net::instant now,
                  const std::function<std::optional<net::instant>(const net::member&)>& heard) const {
  std::vector<run_member> members;
  for (const auto& [who, e] : all_) {
    const auto last = e.is == run_member::state::joined ? heard(who) : e.heard;
    run_member m{std::string(net::to_string(who.part)), who.number, e.incarnation, e.is};
    m.since = seconds_between(e.since, now);
    if (last) m.heard = seconds_between(*last, now);
    m.address = e.from;
    m.devices = e.devices;
    m.shards = e.shards;
    m.losses = e.losses;
    m.why = e.why;
    members.push_back(std::move(m));
  }
  return members;
}

} // namespace mailgrad::remote
