#include <mailgrad/actors/worker/local_exchange.hpp>

#include <utility>

namespace mailgrad {

local_exchange::local_exchange(const worker_context& of, shard_lines& lines,
                               std::shared_ptr<local_steps> local)
    : of_(of), lines_(lines), local_(std::move(local)) {}

void local_exchange::receive(const shard_weights& x) {
  const instant taken = of_.time.now();
  if (!lines_.had_answered(x.header.shard.value)) // else these weights have been received before
    local_->receive(x.header.shard.value, x.payload.values, x.payload.met);
  lines_.note(x, taken, of_.time.now() - taken);
}

void local_exchange::go_on() {
  update_by_rule(local_->rule(), [this] { local_->go_on(); });
}

void local_exchange::bind() { of_.runner.use_weights(0, local_->weights()); }

void local_exchange::deliver(computed_gradient g) {
  spent_ += g.spent.value_or(instant{0});
  last_samples_ = g.samples;
  if (local_->exchanges_first()) {
    local_->hold(std::move(g.values), g.scale);
    flush();
    return;
  }
  update_by_rule(local_->rule(), [&] { local_->step(std::move(g.values), g.scale); });
  if (local_->exchange_due()) flush();
}

bool local_exchange::flush() {
  if (local_->taken() == 0) return false;
  lines_.push(local_->difference(), 1, of_.time.now(), std::exchange(spent_, instant{0}), false,
              local_->holds() ? trained_work{1, last_samples_} : trained_work{});
  return true;
}

} // namespace mailgrad
