#include <mailgrad/actors/remote/acceptor.hpp>
#include <mailgrad/actors/remote/worker_host.hpp>
#include <mailgrad/engine/plan/checked_options.hpp>
#include <mailgrad/engine/plan/worker_devices.hpp>
#include <mailgrad/net/usual_network.hpp>

namespace mailgrad::remote {

using messaging::send_anonymously, messaging::spawn, messaging::spawn_apart;

namespace {

/// Looks for something, on a thread of its own, because it reads files.
class samples_search : messaging::actor_part {
public:
  static constexpr const char* name = "mailgrad.samples-search";

  samples_search(caf::event_based_actor* self, std::function<void()> look)
      : actor_part(self), look_(std::move(look)) {}
  caf::behavior make_behavior() {
    send(myself(), go_on{});
    return {on([this](const go_on&) {
      look_();
      self_->quit();
    })};
  }

private:
  std::function<void()> look_;
};

/// A worker is the same to a parameter host as to the server: its number and its incarnation.
net::hello hello_of(const worker_terms& terms) {
  net::hello says;
  says.says[std::string(net::feature::run)] = net::key_text(terms.run.value);
  says.part = net::role::worker;
  says.number = terms.worker.value;
  says.incarnation = terms.incarnation.value + 1;
  return says;
}

} // namespace

caf::behavior worker_host::make_behavior() {
  messaging::ignore_others(self_);
  return {
      on([this](const terms_given& x) {
        try {
          take_terms(x);
        } catch (const std::exception& e) {
          options_.by->fail(std::string("cannot do this work: ") + e.what());
          self_->quit();
        }
      }),
      on([this](const go_on&) { // one more parameter host is there, or the search for samples is over
        ++ready_;
        begin_if_ready();
      }),
      // The server notices the end of a host within the time of a silence, as this worker does. If only the
      // way to the host is broken, the host tells the server that the worker is lost, and the server may then
      // send the worker home, which is no end of the run either.
      on([this](const shards_unreachable& x) {
        if (x.waited) return options_.by->lose(x.why);
        cut_off_ = true;
        const auto terms = shard_hosts_.front()->terms();
        send_after(terms ? terms->times.silence() : net::timing{}.silence(), shards_unreachable{x.why, true});
      }),
      on([this](const leave_run& x) { send(worker_, x); }),
      on([this](const worker_left&) { early_ = true; }),
      on([this](const worker_lost& x) {
        if (x.why.empty() && cut_off_ && !early_) return; // shards_unreachable tells which end it is
        if (x.why.empty())
          options_.by->tell_host(worker_leaves{early_});
        else
          options_.by->fail("its worker failed: " + x.why);
        self_->quit();
      }),
      on([this](const give_up&) { self_->quit(); }),
  };
}

void worker_host::take_terms(const terms_given& x) {
  if (told_) return; // the server tells them once
  told_ = read_terms(x.terms, options_.joins.known, options_.joins.plugins);
  const std::size_t wanted = told_->terms.request.devices.size();
  if (wanted != options_.joins.devices.size())
    throw std::invalid_argument(
        fmt::format("expected {} devices, found {}", wanted, options_.joins.devices.size()));
  told_->terms.request.devices = options_.joins.devices;
  require_precision(options_.joins.devices, told_->terms.products);
  require_trained_by(options_.joins.devices, told_->model, told_->terms.request, *told_->terms.layout);
  for (const shard_place& place : told_->terms.shard_hosts) connect(place);
  if (options_.joins.samples) look_for_samples();
  begin_if_ready();
}

void worker_host::look_for_samples() {
  found_ = std::make_shared<local_samples::answer>();
  const auto look = [here = options_.joins.samples, wanted = told_->terms.data, found = found_,
                     me = caf::actor(self_)] {
    *found = here->find(wanted);
    send_anonymously(me, go_on{});
  };
  spawn_apart<samples_search>(self_->system(), look);
}

/// A worker that has lost some of its shards takes no further part, since it could take no whole step. If it
/// never was in, another try would find the same. A goodbye says that the run has ended, of which the server
/// tells by itself.
void worker_host::connect(const shard_place& place) {
  channel_events events;
  const auto was_in = std::make_shared<bool>(false); // of the network's thread
  events.on_joined = [me = caf::actor(self_), was_in](const net::welcome&) {
    *was_in = true;
    send_anonymously(me, go_on{});
  };
  events.on_ended = [me = caf::actor(self_), by = options_.by, at = place.address,
                     was_in](const net::ending& why) {
    if (why.reason == net::end_reason::left) return;
    const std::string words = fmt::format("it lost the parameter host at {}: {}", at, why.words);
    if (!*was_in || !is_of_the_connection(why.reason)) return by->fail(words);
    send_anonymously(me, shards_unreachable{words});
  };
  shard_hosts_.push_back(std::make_unique<client_side>(options_.network_to(place.address),
                                                       hello_of(told_->terms), std::move(events)));
  shard_hosts_.back()->call_server(name_of_host(place.shards));
  shard_hosts_.back()->greet_patiently();
  shard_hosts_.back()->lend_from(options_.heap);
  shard_hosts_.back()->connect(place.address);
}

void worker_host::begin_if_ready() {
  if (ready_ != told_->terms.shard_hosts.size() + (found_ ? 1 : 0)) return;
  if (found_ && !found_->samples && options_.joins.on_streamed) options_.joins.on_streamed(found_->why);
  try {
    begin();
  } catch (const std::exception& e) {
    options_.by->fail(std::string("cannot do this work: ") + e.what());
    self_->quit();
  }
}

exchange_terms worker_host::terms_of_exchange() const {
  const worker_terms& t = told_->terms;
  exchange_terms exchange{t.run, t.worker, t.incarnation, t.layout, options_.joins.time};
  exchange.wire = parse_wire_format(t.wire);
  exchange.all_reduce = t.all_reduce;
  exchange.devices = static_cast<std::uint32_t>(t.request.devices.size());
  if (is_lossy(exchange.wire))
    exchange.encoder = std::make_shared<gradient_encoder>(exchange.wire, exchange.layout);
  return exchange;
}

/// Makes those that stand in for the actors of other processes, each on the channel to where it is.
worker_peers worker_host::meet(const exchange_terms& exchange) {
  caf::actor_system& system = self_->system();
  channel& by = *options_.by;
  worker_peers peers{{},
                     by.add_far(system, {duty::feeder}),
                     by.add_far(system, {duty::tracker}),
                     by.add_far(system, {duty::coordinator})};
  peers.shards.resize(exchange.layout->shard_count());
  const auto add_shard = [&](channel& to, std::uint32_t s) {
    if (s >= peers.shards.size() || peers.shards[s])
      throw std::invalid_argument(fmt::format("shard {} has no place, or two", s));
    peers.shards[s] = to.add_far(system, {duty::shard, s});
  };
  const auto take_forms = [&](channel& to) {
    to.take_form(kind_of<push_gradient>(), std::make_unique<gradient_form>(exchange));
    to.take_form(kind_of<shard_weights>(), std::make_unique<weights_form>(exchange));
  };
  by.take_form(kind_of<dealt_batch>(), std::make_unique<batch_form>());
  const std::vector<shard_place>& places = told_->terms.shard_hosts;
  if (places.empty()) take_forms(by);
  for (std::uint32_t s = 0; places.empty() && s < peers.shards.size(); ++s) add_shard(by, s);
  for (std::size_t h = 0; h < places.size(); ++h) {
    channel& to = *shard_hosts_[h]->way();
    take_forms(to);
    to.add({duty::coordinator}, peers.coordinator); // a marker names it as the one to answer
    for (const std::uint32_t s : places[h].shards) add_shard(to, s);
  }
  for (std::uint32_t s = 0; s < peers.shards.size(); ++s)
    if (!peers.shards[s]) throw std::invalid_argument(fmt::format("shard {} has no place", s));
  return peers;
}

std::unique_ptr<net::all_reduce> worker_host::join_sums() const {
  if (!options_.joins.join_sums)
    throw std::runtime_error(
        "expected a run whose shards add gradients up, found one whose workers do by MPI; "
        "start the worker with it: mpirun -n 4 mailgrad launch --transport mpi");
  return options_.joins.join_sums(told_->terms.layout->dense_size());
}

void worker_host::begin() {
  const worker_peers peers = meet(terms_of_exchange());
  worker_surroundings with{std::move(told_->model), peers, options_.joins.time, options_.joins.time->now(),
                           true};
  with.ends_with_gpu =
      !options_.joins.gpu_ends_run &&
      std::ranges::any_of(options_.joins.devices, [](device d) { return d.kind == device_kind::cuda; });
  with.blocks = net::blocks_of(options_.heap);
  if (found_) with.samples = found_->samples;
  if (told_->terms.all_reduce) with.sums = join_sums();
  worker_ = add_worker(0, [&] {
    spawned_worker made = spawn_worker(self_->system(), told_->terms, std::move(with));
    stages_ = std::move(made.stages);
    return made.device;
  });
  watch(worker_, worker_lost{told_->terms.worker});
  options_.on_begin(worker_, peers);
}

member_incarnation::member_incarnation(caf::actor_system& home, const std::string& address, net::hello says,
                                       bool tries_once, join_options joins, std::function<void()> on_change)
    : address_(address),
      client_(joins.network, std::move(says), {{}, [of = self_](const net::ending&) { of->end(); }}) {
  if (tries_once) client_.try_once();
  // A shard may hold a gradient for long, so it stays as it is when the session ends.
  const std::shared_ptr<net::shared_heap> heap = net::heap_for(address, std::nullopt);
  client_.lend_from(heap);
  self_->on_change = std::move(on_change);
  const auto network_to = [own = client_.network(), address](const std::string& at) {
    return net::fitting_network(own, address, at);
  };
  self_->host = spawn<worker_host>(
      home, worker_host_options{client_.way(), std::move(joins), network_to, heap,
                                [of = self_](const caf::actor& worker, const worker_peers& peers) {
                                  of->take(worker, peers);
                                }});
  client_.way()->add({duty::host}, self_->host);
}

void member_incarnation::shared::take(const caf::actor& begun, const worker_peers& its_peers) {
  {
    const std::lock_guard lock(mutex);
    if (ended) return send_anonymously(begun, give_up{});
    worker = begun;
    peers = its_peers;
  }
  on_change();
}

/// On the network's thread, or the owner's. What the worker waits for will not come.
void member_incarnation::shared::end() {
  const std::lock_guard lock(mutex);
  ended = true;
  for (const caf::actor& a : {worker, host})
    if (a) send_anonymously(a, give_up{});
}

void member_incarnation::leave() {
  caf::actor host;
  {
    const std::lock_guard lock(self_->mutex);
    if (self_->worker) host = self_->host;
  }
  if (host)
    send_anonymously(host, leave_run{});
  else
    client_.way()->leave("it left before it had begun");
}

void member_incarnation::cut(const std::string& words) {
  client_.close(words);
  self_->end();
  const std::lock_guard lock(self_->mutex);
  self_->worker = self_->host = nullptr;
  self_->peers = {};
}

} // namespace mailgrad::remote
