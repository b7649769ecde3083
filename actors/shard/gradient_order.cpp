#include <mailgrad/actors/shard/gradient_order.hpp>

#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/engine/record/recording.hpp>

#include <utility>

namespace mailgrad {
using messaging::send;

gradient_order::gradient_order(options o)
    : self_(o.self), shard_(o.shard), others_(std::move(o.others)), replays_(o.replayed != nullptr),
      given_(o.workers), log_(o.self, std::move(o.recorder), o.shard) {
  if (!o.replayed) return;
  lives_.emplace(*o.replayed);
  for (const order_entry& turn : o.replayed->turns[shard_.value]) given_.expect(turn);
}

void gradient_order::join(rank worker, incarnation life) {
  given_.join(worker, life);
  if (is_followed()) return;
  given_.pass_joining(worker, life);
  own_.push_back({order_entry::of(order_entry::kind::joined, worker, life), {}});
}

void gradient_order::arrive(const push_gradient& x, std::int64_t at) {
  if (is_followed())
    given_.arrive(x);
  else
    own_.push_back({{order_entry::kind::gradient, x.header.id.worker, x.header.id.step, {}, at}, x});
}

void gradient_order::leave(rank worker, incarnation life) {
  given_.forget(worker, life);
  if (!is_followed()) own_.push_back({order_entry::of(order_entry::kind::left, worker, life), {}});
}

void gradient_order::close(std::int64_t moment) {
  if (!is_followed()) own_.push_back({{order_entry::kind::closed, {}, {}, {}, moment}, {}});
}

std::optional<ordered_gradients::ready> gradient_order::next() {
  if (is_followed()) return given_.next();
  if (own_.empty()) return std::nullopt;
  ordered_gradients::ready first = std::move(own_.front());
  own_.erase(own_.begin());
  return first;
}

void gradient_order::take_switch(bool recorded) {
  if (is_followed()) given_.take_switch();
  const order_entry turn{order_entry::kind::switched, {}};
  if (recorded) log_.note(turn);
  tell_others(turn);
}

void gradient_order::announce(const order_entry& turn) {
  log_.note(turn);
  tell_others(turn);
}

void gradient_order::announce_kept(std::uint64_t checkpoint) {
  log_.mark(checkpoint, shard_);
  tell_others({order_entry::kind::kept, {}, {checkpoint}});
}

void gradient_order::tell_others(const order_entry& turn) {
  if (!shards_agree_ || is_followed()) return;
  for (const caf::actor& shard : others_) send(self_, shard, turn);
}

} // namespace mailgrad
