#include <mailgrad/actors/remote/door_of_shards.hpp>

#include <mailgrad/actors/protocol/listed.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace mailgrad::remote {

void bound_by(const std::shared_ptr<transit>& on_way, net::server_options& terms) {
  terms.has_room = [on_way](const net::member& who) {
    return who.part != net::role::worker || on_way->has_room({who.number});
  };
  terms.has_any_room = [on_way] { return on_way->has_any_room(); };
}

std::vector<wait_named> waits_at_door(const link& by, const net::member& who, const transit* on_way,
                                      std::size_t gradients_a_step, const std::string& where) {
  std::vector<wait_named> all = by.waits();
  if (const auto kept_out = on_way ? by.held_gradient(gradients_a_step) : std::nullopt)
    all.push_back({fmt::format("{} waits for room at {} for its gradient of step {}: for {}", to_string(who),
                               where, kept_out->step, on_way->who_fills_it({who.number})),
                   kept_out->span});
  return all;
}

std::string name_of_host(std::span<const std::uint32_t> shards) {
  return "the parameter host of " + listed("shard", shards);
}

void guests_of_door::open(std::shared_ptr<transit> on_way, std::vector<std::uint32_t> shards) {
  const std::lock_guard lock(mutex_);
  on_way_ = std::move(on_way);
  shards_ = std::move(shards);
}

void guests_of_door::add(std::uint64_t session, const net::member& who, std::shared_ptr<link> by) {
  const std::lock_guard lock(mutex_);
  guests_.insert_or_assign(session, guest{who, std::move(by)});
}

void guests_of_door::remove(std::uint64_t session) {
  const std::lock_guard lock(mutex_);
  guests_.erase(session);
}

std::vector<wait_named> guests_of_door::waits() const {
  const std::lock_guard lock(mutex_);
  const std::string where = name_of_host(shards_);
  std::vector<wait_named> all;
  for (const auto& [session, g] : guests_)
    std::ranges::move(waits_at_door(*g.by, g.who, on_way_.get(), shards_.size(), where),
                      std::back_inserter(all));
  return all;
}

} // namespace mailgrad::remote
