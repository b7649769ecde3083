#include <mailgrad/actors/remote/shard_door.hpp>

#include <mailgrad/actors/protocol/messages.hpp>
#include <mailgrad/actors/remote/far_actor.hpp>
#include <mailgrad/actors/remote/weights_form.hpp>
#include <mailgrad/engine/plan/largest_body.hpp>
#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/memory/memory_address.hpp>

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace mailgrad::remote {
using messaging::send_anonymously;

namespace {

void require_reachable(const std::string& address) {
  if (net::is_memory_address(address)) return;
  if (parse_listen_address(address).is_every_network())
    throw std::invalid_argument(
        fmt::format("listen: workers cannot connect to {}; name an address of this machine", address));
}

} // namespace

shard_door::shard_door(shard_door_options options, caf::actor_system& system)
    : options_(std::move(options)), system_(system),
      rooms_(std::make_shared<gradient_rooms>(options_.layout)) {
  require_reachable(options_.listen);
  const net::features mine{{std::string(net::feature::run), net::key_text(options_.run.value)}};
  net::server_options terms;
  terms.demands = net::demands_of(mine, {net::role::worker}, {});
  terms.seats = {{net::role::worker, options_.seats}};
  terms.run = options_.run.value;
  terms.times = options_.times;
  terms.most_body_bytes = largest_exchange(*options_.layout, options_.devices);
  terms.draw = [by = options_.network] { return by->draw_key(); };
  std::vector<std::uint32_t> held;
  for (const auto& [s, shard] : options_.shards) held.push_back(s);
  terms.name = name_of_host(held);
  if (options_.are_ours) bounds_.on_way = transit_by(options_.listen, *options_.layout, held);
  bounds_.credit = options_.credit;
  bounds_.apply(terms);
  options_.guests->open(bounds_, held);
  end_ = std::make_unique<net::server_end>(std::move(terms), static_cast<net::doorkeeper&>(*this));
  end_->lend_from(options_.heap);
  if (bounds_.on_way)
    bounds_.on_way->when_room(
        [network = options_.network, end = end_.get()] { network->post(*end, [](net::instant) {}); });
  address_ = options_.network->listen(*end_, options_.listen);
}

shard_door::~shard_door() {
  if (bounds_.on_way) bounds_.on_way->when_room({});
  options_.network->post(*end_, [this](net::instant now) { end_->leave_all("the run has ended", now); });
  options_.network->forget(*end_);
}

net::session_events& shard_door::let_in(net::session& s, const std::string&) {
  const net::welcome terms = s.terms();
  auto by = std::make_shared<link>(
      *options_.network,
      link_events{[this, id = terms.session](const net::welcome&) { on_joined(id); },
                  [this, id = terms.session](const net::ending& why) { on_ended(id, why); }});
  by->attach(*end_, s);
  options_.guests->add(terms.session, terms.you, by);
  return *guests_.emplace(terms.session, guest{terms, std::move(by)}).first->second.by;
}

void shard_door::turned_away(const net::refusal& why, const std::string& from) {
  if (!options_.on_event) return;
  if (const auto line =
          refused_.refused(fmt::format("refused {}: {}", from, why.words()), options_.network->now()))
    options_.on_event(*line);
}

void shard_door::on_joined(std::uint64_t session) {
  const guest& g = guests_.at(session);
  const rank worker{g.terms.you.number};
  exchange_terms exchange{
      options_.run,    worker,        {g.terms.incarnation - 1},
      options_.layout, options_.time, std::make_shared<exchange_clock>(options_.layout->shard_count())};
  exchange.wire = options_.wire;
  exchange.rooms = rooms_;
  exchange.on_way = bounds_.on_way;
  exchange.credit = bounds_.credit;
  exchange.session = session;
  exchange.devices = options_.devices;
  link& by = *g.by;
  by.take_form(kind_of<push_gradient>(), std::make_unique<gradient_form>(exchange));
  by.take_form(kind_of<shard_weights>(), std::make_unique<weights_form>(exchange));
  by.add({duty::coordinator}, options_.coordinator);
  for (const auto& [s, shard] : options_.shards) by.add({duty::shard, s}, shard);
  by.add_far(system_, {duty::worker, worker.value});
  bounds_.share_credit(session, worker, g.by);
}

/// The shards hear of it from the coordinator, which passes it on to each of them when it knows what became
/// of the worker. If they went on before, the others could train all that is theirs, and leave, before
/// anybody knows that there is more to train. The coordinator is also told of a worker that says goodbye: its
/// last message to a shard may not have been sent.
void shard_door::on_ended(std::uint64_t session, const net::ending& why) {
  const guest gone = std::move(guests_.at(session));
  guests_.erase(session);
  options_.guests->remove(session);
  bounds_.end(session);
  const rank worker{gone.terms.you.number};
  const incarnation life{gone.terms.incarnation - 1};
  if (why.reason != net::end_reason::left)
    send_anonymously(options_.coordinator, worker_lost{worker, why.words, life});
  for (const auto& [s, shard] : options_.shards)
    messaging::send_as(shard, options_.coordinator, caf::make_message(worker_left{worker, life}));
}

} // namespace mailgrad::remote
