#include <mailgrad/actors/remote/acceptor.hpp>

namespace mailgrad::remote {

void serve_exchange(const std::shared_ptr<channel>& by, const exchange_terms& terms,
                    caf::actor_system& system) {
  const message_kind push = kind_of<push_gradient>();
  by->take_form(push, std::make_unique<gradient_form>(terms));
  by->take_form(kind_of<shard_weights>(), std::make_unique<weights_form>(terms));
  by->add_far(system, {duty::worker, terms.worker.value});
  const auto& credit = terms.bounds.credit;
  if (!credit) return;
  by->keep_credit(push, [credit, session = terms.session] { return !credit->gives_back(session); });
  credit->add(terms.session, terms.worker, [way = std::weak_ptr(by)](std::uint32_t bodies) {
    if (const auto open = way.lock()) open->allow(bodies);
  });
}

std::vector<wait_reason> waits_at_admission(std::uint64_t session, const channel& by, const net::member& who,
                                            const admission_bounds& bounds, std::size_t gradients_a_step,
                                            const std::string& where) {
  std::vector<wait_reason> all;
  if (auto ours = by.own_wait()) all.push_back(std::move(*ours));
  const auto first = bounds.credit ? bounds.credit->waits_behind(session) : std::nullopt;
  if (auto theirs = by.peers_wait()) {
    if (first)
      theirs->what =
          fmt::format("{} waits for its turn in the sum of step {} at {}: the gradient of worker {} "
                      "is awaited first",
                      to_string(who), by.peers_step(), where, first->value);
    all.push_back(std::move(*theirs));
  }
  if (const auto kept_out = bounds.on_way ? by.held_gradient(gradients_a_step) : std::nullopt)
    all.push_back({fmt::format("{} waits for room at {} for its gradient of step {}: for {}", to_string(who),
                               where, kept_out->step, bounds.on_way->who_fills_it({who.number})),
                   kept_out->span});
  return all;
}

std::vector<wait_reason> admitted_workers::waits() const {
  const std::lock_guard lock(mutex_);
  const std::string where = name_of_host(shards_);
  std::vector<wait_reason> all;
  for (const auto& [session, g] : admitted_)
    std::ranges::move(waits_at_admission(session, *g.by, g.who, bounds_, shards_.size(), where),
                      std::back_inserter(all));
  return all;
}

} // namespace mailgrad::remote
