#include <mailgrad/actors/remote/parameter_host.hpp>
#include <mailgrad/actors/run/run_crew.hpp>
#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/usual_network.hpp>

namespace mailgrad::remote {

using messaging::send_anonymously, messaging::spawn;

namespace {

void require_reachable(const std::string& address) {
  if (net::is_memory_address(address)) return;
  if (parse_listen_address(address).is_every_network())
    throw std::invalid_argument(
        fmt::format("listen: workers cannot connect to {}; name an address of this machine", address));
}

} // namespace

shard_acceptor::shard_acceptor(shard_acceptor_options options, caf::actor_system& system)
    : options_(std::move(options)), system_(system) {
  require_reachable(options_.listen);
  const net::features mine{{std::string(net::feature::run), net::key_text(options_.run.value)}};
  net::server_options terms;
  terms.demands = net::demands_of(mine, {net::role::worker}, {});
  terms.slots = {{net::role::worker, options_.slots}};
  terms.run = options_.run.value;
  terms.times = options_.times;
  terms.most_body_bytes = largest_exchange(*options_.layout, options_.devices);
  terms.draw = [by = options_.network] { return by->draw_key(); };
  std::vector<std::uint32_t> held;
  for (const auto& [s, shard] : options_.shards) held.push_back(s);
  terms.name = name_of_host(held);
  options_.bounds.apply(terms);
  options_.admitted->open(options_.bounds, held);
  end_ = std::make_unique<net::server_end>(std::move(terms), static_cast<net::doorkeeper&>(*this));
  end_->lend_from(options_.heap);
  options_.bounds.open(options_.network, *end_);
  address_ = options_.network->listen(*end_, options_.listen);
}

shard_acceptor::~shard_acceptor() {
  options_.bounds.close();
  options_.network->post(*end_, [this](net::instant now) { end_->leave_all("the run has ended", now); });
  options_.network->forget(*end_);
}

net::session_events& shard_acceptor::let_in(net::session& s, const std::string&) {
  const net::welcome terms = s.terms();
  auto by = std::make_shared<channel>(
      *options_.network, channel_events{[this](const net::welcome& in) { on_joined(in); },
                                        [this, terms](const net::ending& why) { on_ended(terms, why); }});
  by->attach(*end_, s);
  options_.admitted->add(terms.session, terms.you, by);
  return *admitted_.emplace(terms.session, std::move(by)).first->second;
}

void shard_acceptor::on_joined(const net::welcome& terms) {
  const std::shared_ptr<channel>& by = admitted_.at(terms.session);
  by->add({duty::coordinator}, options_.coordinator);
  for (const auto& [s, shard] : options_.shards) by->add({duty::shard, s}, shard);
  exchange_terms exchange{
      options_.run, {terms.you.number}, {terms.incarnation - 1}, options_.layout, options_.time};
  exchange.wire = options_.wire;
  exchange.bounds = options_.bounds;
  exchange.session = terms.session;
  exchange.devices = options_.devices;
  serve_exchange(by, exchange, system_);
}

/// The shards hear of it from the coordinator, which passes it on to each of them when it knows what became
/// of the worker. If they went on before, the others could train all that is theirs, and leave, before
/// anybody knows that there is more to train. The coordinator is also told of a worker that says goodbye: its
/// last message to a shard may not have been sent.
void shard_acceptor::on_ended(const net::welcome& terms, const net::ending& why) {
  const auto gone = admitted_.extract(terms.session); // which lives until here ends
  options_.admitted->remove(terms.session);
  options_.bounds.end(terms.session);
  const rank worker{terms.you.number};
  const incarnation_number incarnation{terms.incarnation - 1};
  if (why.reason != net::end_reason::left)
    send_anonymously(options_.coordinator, worker_lost{worker, why.words, incarnation});
  for (const auto& [s, shard] : options_.shards)
    messaging::send_as(shard, options_.coordinator, caf::make_message(worker_left{worker, incarnation}));
}

caf::behavior shard_host::make_behavior() {
  messaging::ignore_others(self_);
  return {
      on([this](const terms_given& x) {
        try {
          begin(x);
        } catch (const std::exception& e) {
          options_.by->fail(std::string("cannot hold these shards: ") + e.what());
          end();
        }
      }),
      on([this](const shard_lost& x) {
        options_.by->fail(
            fmt::format("its shard {} failed{}{}", x.shard.value, x.why.empty() ? "" : ": ", x.why));
        end();
      }),
      on([this](const give_up&) { end(); }),
  };
}

void shard_host::begin(const terms_given& x) {
  if (!shards_.empty()) return; // the server tells them once
  std::vector<shard_terms> terms = read_shard_terms(x.terms, options_.holds.plugins);
  require_parameter_actor(terms.front().parameter_actor);
  shard_acceptor_options acceptor;
  const parameter_host_options& o = options_.holds;
  acceptor.network = o.network;
  acceptor.listen = o.listen;
  acceptor.on_event = o.on_event;
  acceptor.times = options_.times();
  acceptor.run = terms.front().run;
  acceptor.slots = terms.front().slots;
  acceptor.devices = terms.front().devices;
  acceptor.wire = parse_wire_format(terms.front().wire);
  acceptor.layout = terms.front().layout;
  acceptor.time = o.time;
  acceptor.coordinator = options_.by->add_far(self_->system(), {duty::coordinator});
  options_.by->add_far(self_->system(), {duty::evaluator});
  acceptor.heap = net::heap_for(o.listen, kept_for(acceptor.times));
  acceptor.bounds.buffers = std::make_shared<gradient_buffers>(acceptor.layout);
  std::vector<std::uint32_t> mine;
  for (const shard_terms& t : terms) mine.push_back(t.shard.value);
  if (!o.parameter_actor) { // one of another author may keep the messages themselves
    acceptor.bounds.on_way = transit_by(o.listen, *acceptor.layout, mine);
    acceptor.bounds.credit = credit_by(o.listen, *acceptor.layout, mine, acceptor.slots, acceptor.devices);
  }
  spawn_shards(std::move(terms), net::blocks_of(acceptor.heap), acceptor);
  acceptor.shards = shards_;
  acceptor_ = std::make_unique<shard_acceptor>(std::move(acceptor), self_->system());
  std::ranges::sort(mine);
  if (o.on_begin) o.on_begin(mine, acceptor_->address());
  options_.by->tell_host(shards_ready{acceptor_->address()});
}

void shard_host::require_parameter_actor(const std::string& wanted) const {
  const std::string found = options_.holds.parameter_actor ? options_.holds.parameter_actor->name : "";
  if (found == wanted) return;
  const auto in_words = [](const std::string& kind) {
    return kind.empty() ? "Mailgrad's" : "'" + kind + "'";
  };
  throw std::invalid_argument(
      fmt::format("parameter actor: expected {}, found {}", in_words(wanted), in_words(found)));
}

/// Spawns the first shard last, because it leads the others under a policy that requires them to agree.
void shard_host::spawn_shards(std::vector<shard_terms> terms, block_source blocks,
                              const shard_acceptor_options& acceptor) {
  caf::actor_system& system = self_->system();
  channel& by = *options_.by;
  std::ranges::sort(terms, std::ranges::greater{}, [](const shard_terms& t) { return t.shard.value; });
  const auto is_mine = [&](std::uint32_t s) {
    return std::ranges::any_of(terms, [s](const shard_terms& t) { return t.shard.value == s; });
  };
  std::map<std::uint32_t, caf::actor> all;
  for (std::uint32_t s = 0; s < terms.front().layout->shard_count(); ++s)
    if (!is_mine(s)) all[s] = by.add_far(system, {duty::shard, s});
  parameter_actor_options with;
  with.tracker = by.add_far(system, {duty::tracker});
  with.time = options_.holds.time;
  with.tells_trace_to = acceptor.coordinator;
  with.timer = options_.timer;
  if (terms.front().records) with.recorder = by.add_far(system, {duty::recorder});
  const std::uint32_t first = terms.back().shard.value;
  for (shard_terms& t : terms) {
    const std::uint32_t s = t.shard.value;
    with.trace = t.trace_events == 0
                     ? nullptr
                     : std::make_shared<trace_track>(fmt::format("shard {}", s), t.trace_events,
                                                     options_.holds.time->now());
    if (acceptor.bounds.credit)
      with.awaits = [credit = acceptor.bounds.credit, s](std::optional<rank> whom, version_number version) {
        credit->await(s, whom, version);
      };
    if (s == first) with.waits_here = [admitted = acceptor.admitted] { return admitted->waits(); };
    if (s == 0)
      for (const auto& [index, shard] : all) with.followers.push_back(shard);
    shards_[s] = all[s] = by.add({duty::shard, s}, [&] {
      return spawn_shard(system, std::move(t), with, {.blocks = blocks},
                         options_.holds.parameter_actor.get());
    });
    watch(shards_[s], shard_lost{{s}});
  }
}

class parameter_host::implementation {
public:
  implementation(const std::string& address, parameter_host_options options)
      : home_({{device_kind::cpu, 0}}),
        client_(options.network ? options.network : net::usual_network(address), {.part = net::role::shard},
                {{}, [this](const net::ending&) { end(); }}) {
    options.network = client_.network();
    {
      const std::lock_guard lock(mutex_);
      host_ = spawn<shard_host>(home_.system(), shard_host_options{client_.way(), std::move(options), [this] {
                                                                     return client_.terms()->times;
                                                                   }});
    }
    client_.way()->add({duty::host}, host_);
    try {
      client_.join(address);
    } catch (...) {
      end_actors();
      throw;
    }
  }
  ~implementation() {
    leave("its process has ended");
    client_.wait_for(most_farewell);
    end_actors();
  }

  const client_side& client() const { return client_; }
  void leave(const std::string& why) { client_.way()->leave(why); }

private:
  /// On the network's thread: the run has ended.
  void end() {
    const std::lock_guard lock(mutex_);
    if (host_) send_anonymously(host_, give_up{});
  }
  void end_actors() {
    client_.close("its process has ended");
    end();
    {
      const std::lock_guard lock(mutex_);
      host_ = nullptr;
    }
    home_.wait();
  }

  std::mutex mutex_; ///< guards the member below
  caf::actor host_;

  run_home home_;
  client_side client_;
};

parameter_host::parameter_host(const std::string& address, parameter_host_options options)
    : self_(std::make_unique<implementation>(address, std::move(options))) {}
parameter_host::~parameter_host() = default;

std::string parameter_host::name() const {
  const auto terms = self_->client().terms();
  return terms ? fmt::format("{} (incarnation {})", to_string(terms->you), terms->incarnation)
               : "a process that has not joined";
}
bool parameter_host::wait_for(std::chrono::milliseconds span) { return self_->client().wait_for(span); }
net::ending parameter_host::wait() { return self_->client().wait(); }
void parameter_host::leave(const std::string& why) { self_->leave(why); }

} // namespace mailgrad::remote
