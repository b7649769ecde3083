#include <mailgrad/actors/remote/shard_host.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/actors/remote/lending.hpp>
#include <mailgrad/actors/shard/spawn_shard.hpp>
#include <mailgrad/net/usual_network.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

namespace mailgrad::remote {
using messaging::on, messaging::send_anonymously, messaging::watch;

shard_host::shard_host(caf::event_based_actor* self, shard_host_options options)
    : self_(self), options_(std::move(options)) {}

caf::behavior shard_host::make_behavior() {
  messaging::ignore_others(self_);
  return {
      on(self_,
         [this](const terms_told& x) {
           try {
             begin(x);
           } catch (const std::exception& e) {
             options_.by->fail(std::string("cannot hold these shards: ") + e.what());
             end();
           }
         }),
      on(self_,
         [this](const shard_lost& x) {
           options_.by->fail(
               fmt::format("its shard {} failed{}{}", x.shard.value, x.why.empty() ? "" : ": ", x.why));
           end();
         }),
      on(self_, [this](const give_up&) { end(); }),
  };
}

void shard_host::begin(const terms_told& x) {
  if (!shards_.empty()) return; // the server tells them once
  std::vector<shard_terms> terms = read_shard_terms(x.terms, options_.plugins);
  require_parameter_actor(terms.front().parameter_actor);
  shard_door_options door;
  door.network = options_.network;
  door.listen = options_.listen;
  door.on_event = options_.on_event;
  door.times = options_.times();
  door.run = terms.front().run;
  door.seats = terms.front().seats;
  door.devices = terms.front().devices;
  door.wire = parse_wire_format(terms.front().wire);
  door.layout = terms.front().layout;
  door.time = options_.time;
  door.coordinator = options_.by->add_far(self_->system(), {duty::coordinator});
  options_.by->add_far(self_->system(), {duty::evaluator});
  door.heap = net::heap_for(options_.listen, kept_for(door.times));
  if (!options_.parameter_actor) {
    std::vector<std::uint32_t> held;
    for (const shard_terms& t : terms) held.push_back(t.shard.value);
    door.credit = credit_by(options_.listen, *door.layout, held, door.seats, door.devices);
  }
  spawn_shards(std::move(terms), net::blocks_of(door.heap), door);
  door.shards = shards_;
  door.are_ours = options_.parameter_actor == nullptr;
  door_ = std::make_unique<shard_door>(std::move(door), self_->system());
  std::vector<std::uint32_t> mine;
  for (const auto& [s, shard] : shards_) mine.push_back(s);
  options_.on_begin(mine, door_->address());
  options_.by->post({duty::host}, {}, kind_of<shards_ready>(),
                    caf::make_message(shards_ready{door_->address()}));
}

void shard_host::require_parameter_actor(const std::string& wanted) const {
  const std::string found = options_.parameter_actor ? options_.parameter_actor->name : "";
  if (found == wanted) return;
  const auto in_words = [](const std::string& kind) {
    return kind.empty() ? "Mailgrad's" : "'" + kind + "'";
  };
  throw std::invalid_argument(
      fmt::format("parameter actor: expected {}, found {}", in_words(wanted), in_words(found)));
}

/// Spawns the first shard last, because it leads the others under a policy that requires them to agree.
void shard_host::spawn_shards(std::vector<shard_terms> terms, block_source blocks,
                              const shard_door_options& door) {
  caf::actor_system& system = self_->system();
  link& by = *options_.by;
  std::ranges::sort(terms, std::ranges::greater{}, [](const shard_terms& t) { return t.shard.value; });
  const auto is_mine = [&](std::uint32_t s) {
    return std::ranges::any_of(terms, [s](const shard_terms& t) { return t.shard.value == s; });
  };
  std::map<std::uint32_t, caf::actor> all;
  for (std::uint32_t s = 0; s < terms.front().layout->shard_count(); ++s)
    if (!is_mine(s)) all[s] = by.add_far(system, {duty::shard, s});
  shard_surroundings with{.tracker = by.add_far(system, {duty::tracker}), .time = options_.time};
  with.blocks = std::move(blocks);
  with.tells_trace_to = door.coordinator;
  with.timer = options_.timer;
  if (terms.front().records) with.recorder = by.add_far(system, {duty::recorder});
  const std::uint32_t first = terms.back().shard.value;
  for (shard_terms& t : terms) {
    const std::uint32_t s = t.shard.value;
    with.trace = t.trace_events == 0 ? nullptr
                                     : std::make_shared<trace_track>(fmt::format("shard {}", s),
                                                                     t.trace_events, options_.time->now());
    if (door.credit)
      with.awaits = [credit = door.credit, s](std::optional<rank> whom, version_number version) {
        credit->await(s, whom, version);
      };
    if (s == first) with.waits_here = [guests = door.guests] { return guests->waits(); };
    if (s == 0)
      for (const auto& [index, shard] : all) with.followers.push_back(shard);
    shards_[s] = all[s] = by.add({duty::shard, s}, [&] {
      return spawn_shard(system, std::move(t), with, options_.parameter_actor.get());
    });
    watch(self_, shards_[s], shard_lost{{s}});
  }
}

void shard_host::end() {
  door_.reset();
  for (const auto& [s, shard] : shards_) send_anonymously(shard, give_up{});
  self_->quit();
}

} // namespace mailgrad::remote
